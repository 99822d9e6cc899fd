"""The accounting that the chaos test rests on notices what it is there to notice."""

from typing import Any

import pytest

from tests.live.books import Books


def _line(
    kind: str, mark: str, step: int, rank: int = 0, size: int = 1, at: float = 0.0, **more: Any
) -> dict[str, Any]:
    """A line of a job with two samples per step and four per epoch."""
    return {
        "kind": kind, "mark": mark, "step": step, "epoch": step // 2, "rank": rank, "size": size, "at": at, **more
    }  # fmt: skip


def _step(mark: str, step: int, *shares: list[int], at: float = 0.0) -> list[dict[str, Any]]:
    took = [
        _line("took", mark, step, rank, len(shares), at, samples=samples) for rank, samples in enumerate(shares)
    ]  # fmt: skip
    return [*took, _line("done", mark, step, 0, len(shares), at)]


def _final(*lineage: str, at: float = 9.0) -> dict[str, Any]:
    return {"kind": "final", "run": lineage[-1].partition("/")[0], "at": at, "lineage": list(lineage)}


FIRST = _step("j.1/0/1", 0, [0], [1])
SECOND = _step("j.1/0/1", 1, [2], [3])
END = [_final("j.1/0/1", "j.1/0/1")]


def _check(lines: list[dict[str, Any]]) -> None:
    Books(lines).check_every_sample_once(samples=4, batch=2, epochs=1)


def test_every_sample_once_is_accepted() -> None:
    _check(FIRST + SECOND + END)


def test_a_worker_that_died_before_it_could_say_so_has_still_contributed() -> None:
    """Only rank 0 says that the step was completed, which nobody could say without the share of rank 1."""
    assert [line["rank"] for line in SECOND if line["kind"] == "done"] == [0]
    _check(FIRST + SECOND + END)


def test_of_two_completed_attempts_the_one_the_final_state_descends_from_counts() -> None:
    again = _step("j.2/1/2", 1, [2, 3], at=5.0)
    _check(FIRST + SECOND + again + [_final("j.1/0/1", "j.2/1/2")])


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (FIRST + _step("j.1/0/1", 1, [2], [2]) + END, "exactly once"),
        (FIRST + SECOND[1:] + END, "lacks a share"),
        (FIRST + SECOND[:-1] + END, "nobody completed it"),
        (FIRST + SECOND + [_final("j.1/0/1")], "1 steps in the final state"),
        (FIRST + SECOND, "nobody saw the end"),
        (FIRST + SECOND + END + [_final("j.1/0/1", "j.1/0/2")], "different states"),
        (FIRST + SECOND + SECOND + END, "two workers were rank"),
    ],
)
def test_what_is_wrong_is_noticed(lines: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        _check(lines)


def test_two_runs_at_once_are_noticed() -> None:
    first, late = _step("j.1/0/1", 0, [0, 1], at=1.0), _step("j.1/0/1", 1, [2, 3], at=3.0)
    second = _step("j.2/0/2", 1, [2, 3], at=2.0)
    Books(first + second).check_one_run_at_a_time()
    with pytest.raises(AssertionError, match=r"j\.1 was still training when j\.2 began"):
        Books(first + late + second).check_one_run_at_a_time()


def test_only_a_run_that_was_struck_in_its_end_may_be_followed_by_another() -> None:
    again = {**END[0], "run": "j.2", "at": 10.0}
    lines = [*FIRST, *SECOND, *END, again]
    Books(lines, frozenset({"j.1"})).check_every_sample_once(samples=4, batch=2, epochs=1)
    with pytest.raises(AssertionError, match="in two runs"):
        Books(lines, frozenset({"j.2"})).check_every_sample_once(samples=4, batch=2, epochs=1)
