"""How a job came along: few points, the newest always there, kept over a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.loop.run_figures import RunFigures
from penstock.web.progress_history import Sample, Trail, Trails, speeds
from tests.web.world import Seen, seen


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


def test_a_long_trail_stays_small_even_and_up_to_date() -> None:
    trail = Trail()
    for second in range(100_000):
        trail.add(Sample(float(second), second))
    assert len(trail.samples) <= 401
    assert trail.samples[0].at == 0.0
    assert trail.samples[-1].at == 99_999.0
    gaps = [b.at - a.at for a, b in zip(trail.samples, trail.samples[1:-1], strict=False)]
    assert max(gaps) <= 8 * (100_000 / 400), "no part of the past is thinned out much more than the rest"


def test_what_is_older_than_the_last_sample_is_not_news() -> None:
    trail = Trail([Sample(5.0, 50)])
    trail.add(Sample(5.0, 50))
    trail.add(Sample(4.0, 40))
    assert trail.samples == [Sample(5.0, 50)]


def test_figures_of_live_runs_are_noted_and_found_again(there: Seen, tmp_path: Path) -> None:
    job = there.world.submit(name="noted", work=1000)
    there.world.passes()
    run, trails, run_figures = there.world.record(job).run_id, there.deck.trails, there.world.reconciler.run_figures
    now = there.world.clock.time
    run_figures[run] = RunFigures(at=now + 1, step=10, total=100, loss=0.5)
    trails.look()
    run_figures[run] = RunFigures(at=now + 2, step=20, total=100, loss=float("nan"))
    trails.look()
    trails.look()
    told_before_we_looked = Sample(now, 0, 100)
    assert trails.of(job) == [told_before_we_looked, Sample(now + 1, 10, 100, 0.5), Sample(now + 2, 20, 100, None)]
    trails.stop()
    assert Trails(there.deck.services, tmp_path / "trails").of(job) == trails.of(job)


def test_a_damaged_file_is_no_trail(there: Seen, tmp_path: Path) -> None:
    (tmp_path / "trails").mkdir()
    (tmp_path / "trails" / "j-3.json").write_text("[[1.0")
    assert there.deck.trails.of("j-3") == []


def test_speeds_leave_out_what_went_backwards() -> None:
    assert speeds([Sample(0.0, 5), Sample(1.0, 3)]) == []
