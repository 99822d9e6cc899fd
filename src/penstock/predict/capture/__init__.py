"""A model to the kernels its training iteration runs, without running it."""

from penstock.predict.capture.capturing import Capture, CountedCall, MemoryUse, capture
from penstock.predict.capture.optimizers import OPTIMIZERS
from penstock.predict.capture.recorder import TrainingPhase
from penstock.predict.capture.setup import PRECISIONS, Hook, Setup

__all__ = [
    "OPTIMIZERS",
    "PRECISIONS",
    "Capture",
    "CountedCall",
    "Hook",
    "MemoryUse",
    "Setup",
    "TrainingPhase",
    "capture",
]
