"""Cost tables of a followed model: the same arrays as for known families, from the kernels it really runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.parallel.captured.family import ModuleFamily
from penstock.parallel.operator_costs.roofline import bounded
from penstock.parallel.operator_costs.table_maker import MB, MICRO, TableMaker

if TYPE_CHECKING:
    from penstock.parallel.captured.blocks import CapturedBlock
    from penstock.predict import DeviceProfile, KernelCall


SHARP = 24
"""Of the corner between device and host, as iterations are predicted (:mod:`penstock.predict.iteration`)."""


@dataclass(frozen=True, kw_only=True)
class ModuleTables(TableMaker):
    """Tables from ``profile``: measured kernels where the device was profiled, a roofline of its datasheet else."""

    profile: "DeviceProfile"

    @property
    def source(self) -> str:
        how = "the profile measured on" if self.profile.measured else "a roofline of the datasheet of"
        return f"kernels of {self.family.name} by {how} {self.profile.name}"

    @property
    def model(self) -> ModuleFamily:
        assert isinstance(self.family, ModuleFamily)
        return self.family

    def _all_costs(self, batch: int, tp: int) -> Iterator[dict[str, float]]:
        assert tp == 1
        segments = self.model.captured[batch]
        before = (0.0, *(segment.sent for segment in segments))
        stretch = self._stretch(segments)
        for place, is_output in self.model.origins:
            if is_output:
                yield self._output(segments[place])
            else:
                yield self._inside(segments[place], before[place], place in (0, len(segments) - 1), stretch)

    def _inside(self, segment: "CapturedBlock", received: float, alone: bool, stretch: float) -> dict[str, float]:
        forward, backward = (self._device_s(segment, phase) for phase in ("forward", "backward"))
        return {
            "fwd_us": MICRO * stretch * forward, "bwd_us": MICRO * stretch * backward,
            "input_mb": received / MB, "output_mb": segment.sent / MB,
            "weight_mb": self.family.element_bytes * segment.parameters / MB,
            "activation_mb": (segment.kept if alone else max(0.0, segment.kept - segment.sent)) / MB,
            "fwd_reserved_mb": 0.0, "bwd_reserved_mb": max(0.0, segment.transient) / MB,
        }  # fmt: skip

    def _output(self, segment: "CapturedBlock") -> dict[str, float]:
        return {
            "fwd_us": 0.0, "bwd_us": 0.0, "input_mb": segment.sent / MB, "output_mb": segment.sent / MB,
            "weight_mb": 0.0, "activation_mb": min(segment.kept, segment.sent) / MB,
            "fwd_reserved_mb": 0.0, "bwd_reserved_mb": 0.0,
        }  # fmt: skip

    def _stretch(self, segments: "tuple[CapturedBlock, ...]") -> float:
        """By how much the host that issues the kernels holds them up, over the whole model: it runs ahead."""
        model, phases = self.profile.iteration, ("forward", "backward")
        device = sum(self._device_s(segment, phase) for segment in segments for phase in phases)
        issued = {phase: sum(_issued(segment, phase) for segment in segments) for phase in phases}
        host = model.host.seconds(issued) * model.host_factor
        longest = device + host if model.serial else bounded(device, host, sharpness=SHARP)
        return longest / device if device else 1.0

    def _device_s(self, segment: "CapturedBlock", phase: str) -> float:
        """Kernels one after another."""
        model = self.profile.iteration
        each = (
            (self._kernel_s[call] + model.gap_s) * count
            for (call, when), count in segment.calls.items()
            if when == phase
        )
        return sum(each) * model.device_factor

    @cached_property
    def _kernel_s(self) -> "dict[KernelCall, float]":
        """Seconds of every kernel of every size, predicted together."""
        calls = list({
            call: None for segments in self.model.captured.values() for segment in segments for call, _ in segment.calls
        })  # fmt: skip
        found = self.profile.iteration.kernels.predict(calls)
        return dict(zip(calls, found.mean_s.tolist(), strict=True))


def _issued(segment: "CapturedBlock", phase: str) -> int:
    return sum(count for when, count in segment.issued.items() if when == phase)
