"""Random numbers as people choose the sizes of their networks: round ones mostly, over many orders of magnitude."""

from random import Random

_VOCABULARIES = (1000, 8000, 30522, 32000, 50257, 50304, 65536, 100352, 128256)


def log_uniform(rng: Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


def rounded(value: float, multiple: int) -> int:
    return max(multiple, round(value / multiple) * multiple)


def any_width(rng: Random, low: float, high: float) -> int:
    """Mostly multiples of 8 to 64, as people choose; now and then something odd."""
    multiple = rng.choices([64, 32, 16, 8, 4], [0.35, 0.25, 0.2, 0.17, 0.03])[0]
    return rounded(log_uniform(rng, low, high), multiple)


def any_batch(rng: Random, low: float, high: float) -> int:
    size = log_uniform(rng, low, high)
    return max(1, rounded(size, 8) if size > 12 and rng.random() < 0.85 else round(size))


def any_vocabulary(rng: Random) -> int:
    """A known one, or any other; some are odd numbers, whose products run slower kernels."""
    if rng.random() < 0.5:
        return rng.choice(_VOCABULARIES)
    return rounded(log_uniform(rng, 4000, 160000), rng.choice([1, 2, 8, 64, 256]))
