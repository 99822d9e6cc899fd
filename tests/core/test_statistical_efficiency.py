"""Statistical efficiency: what a sample is worth in a larger batch, and the batch with the most goodput."""

import math

import pytest

from penstock.core import (
    Curve,
    CurveError,
    Job,
    JobError,
    JobSubmitted,
    Scaling,
    StatisticalEfficiency,
    Work,
    decode,
    encode,
)

NOISY = StatisticalEfficiency(noise_scale=900.0, initial_batch=100, most_batch=800)


def test_the_formula_of_pollux() -> None:
    assert [NOISY.efficiency(batch) for batch in (100, 400, 1100)] == [1.0, 1000 / 1300, 0.5]
    assert NOISY.goodput(400, rate=2.0) == pytest.approx(2.0 * 4 * 1000 / 1300)


def test_the_best_batch_is_found_among_eight_per_doubling() -> None:
    """An iteration takes 1 s and 1 ms per sample: M / (1000 + M) / (900 + M) is most at sqrt(1000 x 900) = 949."""
    wide = StatisticalEfficiency(noise_scale=900.0, initial_batch=100, most_batch=10_000)
    batch, goodput = wide.best(lambda each: 1 / (1.0 + each / 1000))
    assert batch == pytest.approx(949, rel=2**0.125 - 1)
    assert goodput == pytest.approx(9.49 * 1000 / 1849 / 1.949, rel=0.01)
    assert NOISY.best(lambda _: 1.0) == (800, NOISY.goodput(800, 1.0)), "a larger batch for nothing"
    assert NOISY.best(lambda each: 100.0 / each)[0] == 100, "no faster per sample"


def test_every_device_computes_a_sample() -> None:
    assert min(NOISY.batches(at_least=250)) == 250
    assert NOISY.batches(at_least=800) == (800,)
    assert NOISY.best(lambda _: 1.0, at_least=801) == (800, 0.0)


@pytest.mark.parametrize(
    ("noise", "initial", "most"), [(-1.0, 1, 2), (math.nan, 1, 2), (math.inf, 1, 2), (1.0, 0, 2), (1.0, 4, 2)]
)
def test_what_makes_no_sense_is_refused(noise: float, initial: int, most: int) -> None:
    with pytest.raises(JobError, match="Allowed"):
        StatisticalEfficiency(noise_scale=noise, initial_batch=initial, most_batch=most)


def test_curves_name_a_batch_per_count() -> None:
    with pytest.raises(CurveError, match="batches"):
        Scaling(counts=(1, 2), rates=(1.0, 2.0), batches=(64,))


def test_jobs_keep_it_in_the_log() -> None:
    scaling = Scaling(counts=(1, 2), rates=(1.0, 2.0), batches=(100, 150))
    event = JobSubmitted(0.0, Job(id="a", work=Work(5.0), curve=Curve((("T4", scaling),)), statistics=NOISY))
    assert decode(encode(event)) == event
    old = encode(event)
    del old["job"]["statistics"]
    assert decode(old).job.statistics is None, "what earlier versions wrote"
