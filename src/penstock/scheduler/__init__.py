"""Events and decisions in, instructions out; the invariants; the story of every job."""

from penstock.scheduler.costs import CostModel, ExpectedCosts, Round
from penstock.scheduler.records import FINAL, JobState
from penstock.scheduler.scheduler import Scheduler
from penstock.scheduler.story import Entry, Story

__all__ = ["FINAL", "CostModel", "Entry", "ExpectedCosts", "JobState", "Round", "Scheduler", "Story"]
