"""What a decision costs: nothing, as in the public simulator, or as measured."""

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.core import FREE, Cluster, UnknownNameError
from penstock.scheduler import CostedRound
from penstock.simulate import OVERHEADS, ArtifactCosts, costs_named
from penstock.simulate.overhead import Metered
from penstock.simulate.replicas.elasticflow.overhead import seconds
from tests.simulate.build import job, run

SMALL = Cluster.parse("2x8")


def decision(devices: Sequence[tuple[int, ...]], changed: Sequence[bool]) -> CostedRound:
    widths = np.array([len(each) for each in devices])
    return CostedRound(widths, np.array(changed), 16, lambda row: devices[row])


def test_three_models_are_known() -> None:
    assert OVERHEADS == ("none", "artifact", "measured")
    with pytest.raises(UnknownNameError, match=r"unknown overhead model 'artefact'.*Did you mean 'artifact'\?"):
        costs_named("artefact", SMALL, 60.0)


def test_none_is_free() -> None:
    costs = costs_named("none", SMALL, 60.0)
    assert costs.overhead == FREE
    assert costs.pauses(decision([(0, 1), ()], [True, False])).tolist() == [0.0, 0.0]


def test_measured_stops_only_those_that_change() -> None:
    costs = costs_named("measured", SMALL, 60.0)
    assert costs.pauses(decision([(0, 1), (2,), ()], [True, False, False])).tolist() == [4.2, 0.0, 0.0]
    assert (costs.overhead.change_s, costs.overhead.worst_s, costs.overhead.every_round_s) == (4.2, 4.2, 0.0)


@pytest.mark.parametrize(("devices", "base", "restart"), [(16, 2, 27), (255, 2, 27), (256, 7, 47), (2048, 7, 47)])
def test_large_clusters_lose_more(devices: int, base: int, restart: int) -> None:
    assert seconds(1, devices, cached=True) == base
    assert seconds(1, devices, restart=True) - seconds(1, devices) == restart


def test_a_new_device_set_costs_by_doublings() -> None:
    assert [seconds(width, 8) - seconds(1, 8, cached=True) for width in (1, 2, 4, 64)] == [2.0, 4.0, 6.0, 14.0]


def test_the_artifact_charges_everybody_and_more_for_new_device_sets() -> None:
    costs = ArtifactCosts(16, slot=60.0)
    wide, narrow, other = (0, 1, 2, 3), (4,), (8, 9)
    assert costs.pauses(decision([wide, narrow, ()], [True, True, False])).tolist() == [2 + 6, 2 + 2, 0]
    assert costs.pauses(decision([wide, narrow, ()], [False, False, False])).tolist() == [2, 2, 0]
    assert costs.pauses(decision([other, narrow, ()], [True, False, False])).tolist() == [2 + 4, 2, 0]
    assert costs.pauses(decision([wide, narrow, ()], [True, False, False])).tolist() == [2, 2, 0], "seen before"


def test_a_device_set_is_known_whoever_used_it() -> None:
    costs = ArtifactCosts(16, slot=60.0)
    costs.pauses(decision([(0, 1), ()], [True, False]))
    assert costs.pauses(decision([(), (0, 1)], [False, True])).tolist() == [0, 2]


def test_every_slotth_decision_is_a_restart_after_which_all_is_forgotten() -> None:
    costs = ArtifactCosts(16, slot=3.0)
    wide, narrow = (0, 1, 2, 3), (4,)
    charged = [costs.pauses(decision([wide, ()], [first, False])).tolist() for first in (True, False, False)]
    assert charged == [[8, 0], [2, 0], [2, 0]]
    assert costs.pauses(decision([wide, narrow], [False, True])).tolist() == [2, 2 + 2 + 27], "new in the restart"
    assert costs.pauses(decision([wide, narrow], [False, False])).tolist() == [2 + 6, 2 + 2], "new again after it"
    assert costs.pauses(decision([wide, narrow], [False, False])).tolist() == [2, 2]


def test_what_policies_may_expect_of_the_artifact() -> None:
    overhead = costs_named("artifact", SMALL, 60.0).overhead
    assert (overhead.every_round_s, overhead.change_s, overhead.per_doubling_s) == (2, 2 + 2, 2)
    assert overhead.worst_s == 2 + 27 + 14
    assert ArtifactCosts(256, 60.0).overhead.worst_s == 7 + 47 + 14


def test_a_meter_adds_up_device_seconds() -> None:
    metered = Metered(ArtifactCosts(16, slot=60.0))
    metered.pauses(decision([(0, 1, 2, 3), (4,), ()], [True, True, False]))
    metered.pauses(decision([(0, 1, 2, 3), (4,), ()], [False, False, False]))
    assert metered.device_seconds == 4 * 8 + 1 * 4 + 4 * 2 + 1 * 2
    assert metered.overhead == ArtifactCosts(16, slot=60.0).overhead


def test_pauses_delay_jobs_and_show_in_the_summary() -> None:
    result = run([job("a", requested=4)], costs=costs_named("measured", SMALL, 0.0))
    assert result.outcomes[0].finished_at == pytest.approx(4.2 + 25)
    assert result.outcomes[0].device_seconds == pytest.approx(4 * 29.2)
    assert result.summary.overhead_share == pytest.approx(4.2 / 29.2)


def test_the_artifact_in_a_run() -> None:
    jobs = [job("a", requested=4), job("b", at=10.0, requested=4)]
    result = run(jobs, costs=ArtifactCosts(4, slot=60.0))
    first = 10 + 2 + (100 - (10 - 8) * 4) / 4
    assert result.outcomes[0].finished_at == first, "eight seconds to start, two when b comes"
    assert result.outcomes[1].finished_at == first + 2 + 25, "b runs on devices that are known"
