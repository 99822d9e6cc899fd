"""Events in, instructions out; the invariants; the story of every job."""

from penstock.scheduler.costs import CostModel, ExpectedCosts, Round
from penstock.scheduler.machine import Scheduler
from penstock.scheduler.states import FINAL, JobState
from penstock.scheduler.story import Entry, Story

__all__ = ["FINAL", "CostModel", "Entry", "ExpectedCosts", "JobState", "Round", "Scheduler", "Story"]
