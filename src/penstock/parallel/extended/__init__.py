"""Iteration time and memory of a plan with everything the searches' own model leaves out."""

from penstock.parallel.extended.memory import StageMemory, memory_of
from penstock.parallel.extended.pipeline import StageTimes, in_flight, iteration_s
from penstock.parallel.extended.prediction import Prediction, StagePrediction, predict
from penstock.parallel.extended.site import Site, Trainer
from penstock.parallel.extended.stage import StageKey, StageView
from penstock.parallel.extended.sync import Sync, overlapped, sync_of

__all__ = [
    "Prediction",
    "Site",
    "StageKey",
    "StageMemory",
    "StagePrediction",
    "StageTimes",
    "StageView",
    "Sync",
    "Trainer",
    "in_flight",
    "iteration_s",
    "memory_of",
    "overlapped",
    "predict",
    "sync_of",
]
