"""A model to the kernels its training iteration runs, without running it."""

from penstock.estimate.capture.capturing import Capture, Counted, MemoryUse, capture
from penstock.estimate.capture.recorder import Phase
from penstock.estimate.capture.setup import OPTIMIZERS, PRECISIONS, Hook, Setup

__all__ = ["OPTIMIZERS", "PRECISIONS", "Capture", "Counted", "Hook", "MemoryUse", "Phase", "Setup", "capture"]
