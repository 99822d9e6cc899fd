"""The anytime search for a plan: cuts, stages, polish, and a bound no plan can beat."""

from penstock.parallel.search.anytime import search
from penstock.parallel.search.problem import FoundPlan, Problem, Split
from penstock.parallel.search.record import Clock, SearchRecord

__all__ = ["Clock", "FoundPlan", "Problem", "SearchRecord", "Split", "search"]
