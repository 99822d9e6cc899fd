"""A what-if study: the calibrating replay first, then every scenario beside it, or the reason why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.simulate.whatif.calibration import Calibration, calibrate
from penstock.simulate.whatif.past import Past
from penstock.simulate.whatif.replay import ReplayedPast, replay_past
from penstock.simulate.whatif.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfStudy:
    """``baseline`` is the replay under the rules that really ran; ``replays`` has one for each scenario, in order.

    Differences mean something between replays only. Where the calibration doubts, there are no replays.
    """

    past: Past
    baseline: ReplayedPast
    calibration: Calibration
    replays: Sequence[ReplayedPast] = ()


def what_if(past: Past, scenarios: Sequence[Scenario], *, anyway: bool = False) -> WhatIfStudy:
    """ReplayedPast the past as it ran and, if that comes out as it was or ``anyway``, under every scenario."""
    for scenario in scenarios:
        scenario.cluster_from(past.cluster)  # an impossible cluster is rejected whether or not the past is reproduced
    baseline = replay_past(past, Scenario())
    calibration = calibrate(past, baseline)
    wanted = scenarios if calibration.conclusive or anyway else ()
    replays = [replay_past(past, scenario) for scenario in wanted]
    return WhatIfStudy(past=past, baseline=baseline, calibration=calibration, replays=replays)
