"""Events and decisions in, instructions out; the invariants; the story of every job."""

from penstock.scheduler.costs import CostedRound, CostModel, ExpectedCosts
from penstock.scheduler.preemption import SUSPENDED
from penstock.scheduler.rates import CurveRates, PlacedJob, RateModel
from penstock.scheduler.records import FINAL, UNEXPLAINED_BREACH, JobState
from penstock.scheduler.scheduler import Scheduler
from penstock.scheduler.story import Entry, Story

__all__ = [
    "FINAL",
    "SUSPENDED",
    "UNEXPLAINED_BREACH",
    "CostModel",
    "CostedRound",
    "CurveRates",
    "Entry",
    "ExpectedCosts",
    "JobState",
    "PlacedJob",
    "RateModel",
    "Scheduler",
    "Story",
]
