"""The kernel model of one device, stored as plain arrays, asked for thousands of calls at a time.

It is fitted in the laboratory (:mod:`penstock.predict.lab.fitting.kernel_fitting`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.predict.hardware import Chip
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.family import FamilyModel
from penstock.predict.kernels.files import read_model, write_model
from penstock.predict.kernels.operations import OperationTable, named, unseen_width
from penstock.predict.kernels.tiling import Array

_CONV_DIMS = 10


def kind_of(call: KernelCall) -> str:
    """What is fitted together: a family, but grouped convolutions apart, whose kernels are others altogether."""
    grouped = call.family.startswith("conv") and len(call.dims) == _CONV_DIMS and call.dims[-1] > 1
    return f"{call.family}, grouped" if grouped else call.family


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Columns in the order the calls were given. Nine of ten kernels take between ``low`` and ``high`` seconds.

    ``mean_s`` is what to add up. ``seconds`` is the usual time, with the smallest relative error; it is shorter, the
    more kernels that look alike differ.
    ``in_range`` is false where nothing alike was measured: the bar is wider there, and still only an extrapolation.
    """

    seconds: Array
    mean_s: Array
    low: Array
    high: Array
    bounds: npt.NDArray[np.object_]
    in_range: npt.NDArray[np.bool_]
    seen: npt.NDArray[np.bool_]
    """False where the operation itself was never timed, at whatever size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModel:
    """How long kernels take on a chip.

    >>> from penstock.predict.hardware import device_named
    >>> from penstock.predict.kernels import KernelCall, Precision
    >>> call = KernelCall(family="gemm", dims=(1, 4096, 4096, 4096), precision=Precision.BF16, flops=2 * 4096**3,
    ...                   read_bytes=4 * 4096**2, written_bytes=2 * 4096**2)
    >>> guess = KernelModel.unprofiled(device_named("a100")).predict([call])
    >>> str(guess.bounds[0]), bool(guess.in_range[0]), bool(3e-4 < guess.seconds[0] < 1e-3)
    ('compute', False, True)
    """

    chip: Chip
    families: Mapping[str, FamilyModel] = field(default_factory=dict)
    operations: OperationTable = field(default_factory=OperationTable)
    """What no family was fitted to, operation by operation."""

    @classmethod
    def unprofiled(cls, chip: Chip) -> "KernelModel":
        """Physics with default coefficients, where not even another device was measured; all is out of range."""
        return cls(chip=chip)

    def carried_to(self, chip: Chip) -> "KernelModel":
        """For another device that nobody has measured: the shares of its own rates that kernels reach here."""
        return KernelModel(
            chip=chip,
            families={name: model.carried_over() for name, model in self.families.items()},
            operations=self.operations.carried(self.chip, chip),
        )

    @property
    def profiled(self) -> bool:
        """Whether kernels of this very chip were measured."""
        return any(model.error_bars for model in self.families.values())

    def predict(self, calls: Sequence[KernelCall]) -> Predictions:
        """Equal calls are predicted once."""
        index: dict[KernelCall, int] = {}
        places = np.array([index.setdefault(call, len(index)) for call in calls], dtype=np.int64)
        found = self._predict_distinct(list(index))
        return Predictions(
            seconds=found.seconds[places],
            mean_s=found.mean_s[places],
            low=found.low[places],
            high=found.high[places],
            bounds=found.bounds[places],
            in_range=found.in_range[places],
            seen=found.seen[places],
        )

    def _predict_distinct(self, calls: Sequence[KernelCall]) -> Predictions:
        seconds, mean_s, width = np.zeros((3, len(calls)))
        bounds, in_range = np.empty(len(calls), dtype=object), np.zeros(len(calls), dtype=np.bool_)
        seen = np.array([self.fitted(call) for call in calls], dtype=np.bool_)
        names = np.array([kind_of(call) for call in calls], dtype=str)
        for name in np.unique(names):
            mine = np.flatnonzero(names == name)
            model = self.families.get(str(name)) or FamilyModel(family=calls[int(mine[0])].family)
            found = model.predict([calls[int(place)] for place in mine], self.chip)
            seconds[mine], mean_s[mine], width[mine] = found.seconds, found.mean_s, found.log_width
            bounds[mine], in_range[mine] = found.bounds, found.in_range & seen[mine]
        if self.families:
            self._correct(calls, np.flatnonzero(~seen), seconds, mean_s, width, in_range, seen)
        return Predictions(
            seconds=seconds,
            mean_s=mean_s,
            low=seconds * np.exp(-width),
            high=seconds * np.exp(width),
            bounds=bounds,
            in_range=in_range,
            seen=seen,
        )

    def fitted(self, call: KernelCall) -> bool:
        """Whether a family was fitted to rows of this very operation."""
        model = self.families.get(kind_of(call))
        return model is not None and call.variant in model.variants

    def _has_kin(self, call: KernelCall) -> bool:
        """Whether the same operation was fitted to as it walks through memory otherwise."""
        model = self.families.get(kind_of(call))
        return model is not None and named(call) in {variant.split("/", maxsplit=1)[0] for variant in model.variants}

    def _correct(
        self, calls: Sequence[KernelCall], places: npt.NDArray[np.int64], seconds: Array, mean_s: Array, width: Array,
        in_range: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """What no family was fitted to: by its own line if it has one, else by the physics with a wide bar."""
        width[places] = np.maximum(width[places], unseen_width([calls[int(place)] for place in places]))
        for place in map(int, places):
            time = self.operations.of(calls[place])
            seen[place] = time is not None or self._has_kin(calls[place])
            if time is None:
                continue
            one = calls[place : place + 1]
            seconds[place] = mean_s[place] = time.seconds(one, mean_s[place : place + 1])[0]
            width[place] = time.widths(one)[0]
            in_range[place] = self.profiled and bool(time.covers(one)[0])

    def save(self, path: Path) -> None:
        """One ``.npz`` of arrays and a JSON header; no pickles."""
        write_model(path, self.chip, self.families)

    @classmethod
    def load(cls, path: Path) -> "KernelModel":
        chip, families = read_model(path)
        return cls(chip=chip, families=families)
