"""How much memory a training iteration needs on a device.

What tensors need is followed exactly (see :class:`~penstock.predict.capture.MemoryUse`); libraries add workspaces,
and the allocator holds more than it has handed out. Both are fitted to measured networks.
"""

from dataclasses import dataclass

from penstock.predict.capture.capturing import MemoryUse

_WAYS = 2
"""Forward and backward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPrediction:
    """Bytes at the peak of an iteration. ``needed`` is what a device must have for it to run without trouble."""

    use: MemoryUse
    workspace: float
    allocated: float
    needed: float

    def fits(self, device_bytes: float) -> bool:
        return self.needed <= device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModel:
    """Workspaces of libraries, how much more than that the allocator holds, and what a process needs beside it.

    ``fragmentation`` covers what was measured: a device that has ``needed`` bytes has had enough for all of it.
    """

    workspace: float = 1e8
    fragmentation: float = 1.2
    context: float = 8e8

    def predict(self, use: MemoryUse) -> MemoryPrediction:
        allocated = use.peak + self.workspace
        needed = self.held(use) * self.fragmentation + self.context
        return MemoryPrediction(use=use, workspace=self.workspace, allocated=allocated, needed=needed)

    def held(self, use: MemoryUse) -> float:
        """By the allocator, if nothing but the tensors and workspaces were there: those of convolutions come in sizes
        of their own forward and backward, and are kept apart."""
        return max(use.peak, use.reserved) + self.workspace + _WAYS * use.turned
