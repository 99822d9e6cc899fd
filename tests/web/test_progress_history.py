"""How a job came along: few points, the newest always there, kept over a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.loop.run_figures import RunFigures
from penstock.web.progress_history import ProgressHistory, ProgressSampler, Sample, speeds
from tests.web.world import Seen, seen


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


def test_a_long_trail_stays_small_even_and_up_to_date() -> None:
    history = ProgressHistory()
    for second in range(100_000):
        history.add(Sample(float(second), second))
    assert len(history.samples) <= 401
    assert history.samples[0].at == 0.0
    assert history.samples[-1].at == 99_999.0
    gaps = [b.at - a.at for a, b in zip(history.samples, history.samples[1:-1], strict=False)]
    assert max(gaps) <= 8 * (100_000 / 400), "no part of the past is thinned out much more than the rest"


def test_what_is_older_than_the_last_sample_is_not_news() -> None:
    history = ProgressHistory([Sample(5.0, 50)])
    history.add(Sample(5.0, 50))
    history.add(Sample(4.0, 40))
    assert history.samples == [Sample(5.0, 50)]


def test_figures_of_live_runs_are_noted_and_found_again(there: Seen, tmp_path: Path) -> None:
    job = there.world.submit(name="noted", work=1000)
    there.world.passes()
    run, sampler, run_figures = there.world.record(job).run_id, there.data.sampler, there.world.reconciler.run_figures
    now = there.world.clock.time
    run_figures[run] = RunFigures(at=now + 1, step=10, total=100, loss=0.5)
    sampler.sample()
    run_figures[run] = RunFigures(at=now + 2, step=20, total=100, loss=float("nan"))
    sampler.sample()
    sampler.sample()
    told_before_we_looked = Sample(now, 0, 100)
    assert sampler.of(job) == [told_before_we_looked, Sample(now + 1, 10, 100, 0.5), Sample(now + 2, 20, 100, None)]
    sampler.stop()
    assert ProgressSampler(there.world.platform, tmp_path / "trails").of(job) == sampler.of(job)


def test_a_damaged_file_is_no_trail(there: Seen, tmp_path: Path) -> None:
    (tmp_path / "trails").mkdir()
    (tmp_path / "trails" / "j-3.json").write_text("[[1.0")
    assert there.data.sampler.of("j-3") == []


def test_speeds_leave_out_what_went_backwards() -> None:
    assert speeds([Sample(0.0, 5), Sample(1.0, 3)]) == []
