"""Clusters with several kinds of devices, and jobs that fit none."""

import pytest

from penstock.core import Curve, Decline, Job, JobFinished, JobSubmitted, Overhead, Progress, Quote, Scaling, Verdict
from penstock.policies.deadline.idle import WORTH_A_MOVE
from penstock.scheduler import ExpectedCosts, JobState
from tests.scheduler.build import grants, job, scheduler

FASTER_ON_B = Curve((("A", Scaling(counts=(1, 2), rates=(1.0, 2.0))), ("B", Scaling(counts=(1, 2), rates=(3.0, 5.0)))))


def test_a_job_goes_where_it_runs_fastest() -> None:
    machine = scheduler("1x2xA+1x2xB")
    assert grants(machine.handle(JobSubmitted(0.0, job("a", curve=FASTER_ON_B)))) == {"a": (2,)}
    assert machine.next_finish_at() == pytest.approx(100 / 3)
    machine.validate()


def test_fastest_counts_what_the_kind_and_the_bounds_allow() -> None:
    machine = scheduler("1x8xA+1x1xB")
    wide = Curve((("A", Scaling(counts=(1, 8), rates=(1.0, 6.0))), ("B", Scaling(counts=(1, 8), rates=(3.0, 20.0)))))
    assert grants(machine.handle(JobSubmitted(0.0, job("wide", curve=wide)))) == {"wide": (0,)}
    assert grants(machine.handle(JobSubmitted(1.0, job("narrow", curve=wide, at_most=1)))) == {"narrow": (8,)}


def test_a_job_may_restrict_the_kinds() -> None:
    machine = scheduler("1x2xA+1x2xB")
    assert grants(machine.handle(JobSubmitted(0.0, job("a", curve=FASTER_ON_B, kinds=("A",))))) == {"a": (0,)}


def test_kinds_decide_separately() -> None:
    machine = scheduler("1x2xA+1x2xB", slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a", kinds=("A",))))
    assert grants(machine.handle(JobSubmitted(10.0, job("b", kinds=("B",))))) == {"b": (2,)}
    machine.validate()


def the_refusal_of(shape: str, wanting: Job) -> Quote:
    machine = scheduler(shape)
    said = machine.handle(JobSubmitted(0.0, wanting))
    assert len(said) == 1
    assert isinstance(said[0], Decline)
    assert machine.state_of(wanting.id) is JobState.DECLINED
    assert machine.active() == []
    machine.validate()
    return said[0].quote


def test_a_kind_that_is_not_there_is_refused_by_name() -> None:
    quote = the_refusal_of("1x2xA+3x2xB", job("a", kinds=("C", "D")))
    assert quote.verdict is Verdict.REFUSED
    assert quote.reason == "no device it can use: it needs at least 1 of C or D, the cluster has 2 of A, 6 of B"


def test_too_many_devices_are_refused_with_the_number_there_is() -> None:
    assert the_refusal_of("1x4", job("a", at_least=8, kinds=("gpu",))).reason == (
        "no device it can use: it needs at least 8 of gpu, the cluster has 4 of gpu"
    )


def test_a_curve_that_begins_beyond_the_cluster_is_refused_with_where_it_begins() -> None:
    reason = the_refusal_of("1x4", job("a", curve=Curve.from_table({8: 5.0}))).reason
    assert "at least 8 of" in reason, "that is what it needs, whatever its lower bound says"
    assert "*" not in reason, "a person does not know what kind * is"


@pytest.mark.parametrize(
    ("rate", "left", "device"),
    [(2.0, 20.0, 0), (2.0, 21.0, 1), (WORTH_A_MOVE, 1e3, 0), (WORTH_A_MOVE + 0.01, 1e3, 1), (0.5, 1e3, 0)],
)
def test_a_job_moves_to_a_faster_kind_when_that_earns_back_the_pause(rate: float, left: float, device: int) -> None:
    """A pause of ten seconds, and one iteration per second where it runs."""
    curve = Curve((("A", Scaling(counts=(1,), rates=(1.0,))), ("B", Scaling(counts=(1,), rates=(rate,)))))
    machine = scheduler("1x1xA+1x1xB", "deadline", costs=ExpectedCosts(Overhead(change_s=10.0)))
    machine.handle(JobSubmitted(0.0, job("there", kinds=("B",))), JobSubmitted(0.0, job("here", 1e4, curve=curve)))
    machine.handle(Progress(100.0, "here", left))
    assert machine.devices_of("here") == (0,)
    machine.handle(JobFinished(100.0, "there"))
    assert machine.devices_of("here") == (device,)


@pytest.mark.parametrize(
    ("wanted", "requested"),
    [({"requested": 2}, 2), ({"requested": 8}, 4), ({"requested": 4, "at_most": 2}, 2),
     ({"requested": 4, "at_most": 8}, 4), ({"requested": 2, "at_least": 2, "at_most": 2}, 2)],
)  # fmt: skip
def test_a_request_is_kept_within_the_bounds_of_the_job_and_the_devices_there_are(
    wanted: dict[str, int], requested: int
) -> None:
    machine = scheduler("1x4")
    machine.handle(JobSubmitted(0.0, job("a", **wanted)))
    options = machine._state.holdings.table.options[0]
    assert (options.requested[0], options.requested_rate[0]) == (requested, float(requested))
