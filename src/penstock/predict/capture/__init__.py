"""A model to the kernels its training iteration runs, without running it."""

from penstock.predict.capture.capturing import Capture, Counted, MemoryUse, capture
from penstock.predict.capture.recorder import Phase
from penstock.predict.capture.setup import OPTIMIZERS, PRECISIONS, Hook, Setup

__all__ = ["OPTIMIZERS", "PRECISIONS", "Capture", "Counted", "Hook", "MemoryUse", "Phase", "Setup", "capture"]
