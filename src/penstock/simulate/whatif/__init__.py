"""The past of a platform under other rules: histories, replays, and how well a replay reproduces what happened."""

from penstock.simulate.whatif.calibration import Calibration, Deviation, calibrate
from penstock.simulate.whatif.past import Past, PastJob, PastRules, RealCourse, Stretch
from penstock.simulate.whatif.replay import Figures, ReplayedPast, replay_past
from penstock.simulate.whatif.scenario import Scenario, parse_shares, resized, scenarios_of
from penstock.simulate.whatif.study import WhatIfStudy, what_if

__all__ = [
    "Calibration",
    "Deviation",
    "Figures",
    "Past",
    "PastJob",
    "PastRules",
    "RealCourse",
    "ReplayedPast",
    "Scenario",
    "Stretch",
    "WhatIfStudy",
    "calibrate",
    "parse_shares",
    "replay_past",
    "resized",
    "scenarios_of",
    "what_if",
]
