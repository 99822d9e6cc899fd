"""What speeds a device should have: from a profile of this machine, else from the maker's data sheet."""

from dataclasses import dataclass

from penstock.core import InputError

_MATMUL_SHARE = (0.55, 0.35)
"""Of the data sheet's dense rate, what large products reach on a healthy device, and below what it is broken."""
_MEMORY_SHARE = (0.70, 0.45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``good`` is what a healthy device reaches; below ``bad`` it must not be used."""

    good: float
    bad: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Nothing where nothing is known: then figures are told and not judged."""

    flops: dict[str, Range]
    bytes_s: Range | None = None
    disk_bytes_s: Range | None = None


NOTHING_KNOWN = Expectations(flops={})


def expectations(device_name: str, *, is_cpu: bool = False) -> Expectations:
    """By what a driver calls the device. The data sheet of "cpu" is a nominal one and no expectation."""
    from penstock.predict import own_profiles, profile_named

    if is_cpu and not (own_profiles() / "cpu").is_dir():
        return NOTHING_KNOWN
    try:
        profile = profile_named("cpu" if is_cpu else device_name)
    except InputError:
        return NOTHING_KNOWN
    chip = profile.chip
    source = f"profile {profile.name}" if is_cpu else f"data sheet of {chip.name}"
    flops = {str(precision): _range(rate, _MATMUL_SHARE, source) for precision, rate in chip.peaks}
    return Expectations(flops=flops, bytes_s=_range(chip.bandwidth, _MEMORY_SHARE, source))


def _range(peak: float, shares: tuple[float, float], source: str) -> Range:
    return Range(good=shares[0] * peak, bad=shares[1] * peak, source=source)
