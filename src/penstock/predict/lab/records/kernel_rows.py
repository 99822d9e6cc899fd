"""Raw measurements on disk: one row per distinct kernel call of a measured network, columns as plain arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.predict.array_files import read_arrays
from penstock.predict.kernels.calls import ImageLayout, KernelCall, Precision
from penstock.tools import atomic_file

MOST_DIMS = 10
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """A call as it ran inside a network: the median of its device time and how often it ran in one iteration."""

    call: KernelCall
    seconds: float
    count: int
    launches: float
    """Kernels the device ran for one call, on average."""
    kernel: str
    """Name of the one that took longest."""
    network: int


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Rows as columns. ``calls`` and the arrays run in parallel."""

    calls: tuple[KernelCall, ...]
    seconds: NDArray[np.float64]
    counts: NDArray[np.int64]
    launches: NDArray[np.float64]
    kernels: tuple[str, ...]
    networks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.calls)

    def row(self, index: int) -> KernelRow:
        return KernelRow(
            call=self.calls[index], seconds=float(self.seconds[index]), count=int(self.counts[index]),
            launches=float(self.launches[index]), kernel=self.kernels[index], network=int(self.networks[index]),
        )  # fmt: skip

    def where(self, mask: NDArray[np.bool_]) -> "KernelRows":
        chosen = np.flatnonzero(mask)
        return KernelRows(
            tuple(self.calls[i] for i in chosen), self.seconds[chosen], self.counts[chosen], self.launches[chosen],
            tuple(self.kernels[i] for i in chosen), self.networks[chosen],
        )  # fmt: skip


def save_rows(path: Path, rows: Sequence[KernelRow]) -> None:
    """Text columns as codes into a table; times as 32-bit floats: a hundred thousand rows are a few megabytes."""
    calls = [row.call for row in rows]
    columns: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "dims": np.array([_padded(call.dims) for call in calls], dtype=np.int64).reshape(-1, MOST_DIMS),
        "flops": np.array([call.flops for call in calls], dtype=np.float64),
        "read_bytes": np.array([call.read_bytes for call in calls], dtype=np.float64),
        "written_bytes": np.array([call.written_bytes for call in calls], dtype=np.float64),
        "seconds": np.array([row.seconds for row in rows], dtype=np.float32),
        "count": np.array([row.count for row in rows], dtype=np.int32),
        "launches": np.array([row.launches for row in rows], dtype=np.float32),
        "network": np.array([row.network for row in rows], dtype=np.int32),
        "length": np.array([len(call.dims) for call in calls], dtype=np.int8),
    }
    for name, texts in {
        "family": [call.family for call in calls], "precision": [str(call.precision) for call in calls],
        "layout": [str(call.layout) for call in calls], "variant": [call.variant for call in calls],
        "kernel": [row.kernel[:120] for row in rows],
    }.items():  # fmt: skip
        table, codes = np.unique(np.array(texts, dtype=str), return_inverse=True)
        columns[f"{name}_names"], columns[name] = table, codes.astype(np.int32)
    with atomic_file(path) as file:
        np.savez_compressed(file, **columns)


def load_rows(path: Path) -> KernelRows:
    """Read what :func:`save_rows` wrote."""
    found = read_arrays(path, what="measured rows", wanted="a file of `penstock profile device`")
    if int(found.get("format", 0)) != _FORMAT:
        raise InputError(f"{path} has format {found.get('format')}", str(_FORMAT), "Measure again with this version")
    texts = {
        name: found[f"{name}_names"][found[name]] for name in ("family", "precision", "layout", "variant", "kernel")
    }
    calls = tuple(
        KernelCall(
            family=str(texts["family"][i]), dims=tuple(int(d) for d in found["dims"][i, : found["length"][i]]),
            precision=Precision(texts["precision"][i]), flops=float(found["flops"][i]),
            read_bytes=float(found["read_bytes"][i]), written_bytes=float(found["written_bytes"][i]),
            layout=ImageLayout(texts["layout"][i]), variant=str(texts["variant"][i]),
        )
        for i in range(len(found["seconds"]))
    )  # fmt: skip
    return KernelRows(
        calls, found["seconds"].astype(np.float64), found["count"].astype(np.int64),
        found["launches"].astype(np.float64), tuple(map(str, texts["kernel"])), found["network"].astype(np.int64),
    )  # fmt: skip


def _padded(dims: Iterable[int]) -> list[int]:
    values = list(dims)
    return values + [0] * (MOST_DIMS - len(values))
