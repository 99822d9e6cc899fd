"""Iteration time and memory of a plan with everything the searches' own model leaves out."""

from penstock.parallel.full_cost.memory import StageMemory, memory_of
from penstock.parallel.full_cost.pipeline import StageTimes, in_flight, iteration_s
from penstock.parallel.full_cost.prediction import Prediction, StagePrediction, predict
from penstock.parallel.full_cost.stage import StageKey, StageView
from penstock.parallel.full_cost.sync import Sync, overlapped, sync_of

__all__ = [
    "Prediction",
    "StageKey",
    "StageMemory",
    "StagePrediction",
    "StageTimes",
    "StageView",
    "Sync",
    "in_flight",
    "iteration_s",
    "memory_of",
    "overlapped",
    "predict",
    "sync_of",
]
