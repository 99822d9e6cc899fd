"""What was measured of the strangers, read back: iterations joined with their operations, and single operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.strangers.catalogue import STRANGERS, Stranger
from bench.strangers.measure import records
from penstock.predict.capture import Capture, Setup, capture
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.operation_fitting import TimedCall
from penstock.predict.lab.records.operations import TimedOperation

FOLDER = Path(__file__).parent / "measurements"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredStranger:
    """A stranger at a batch size: seconds of an iteration, of its host and of its device, bytes, operations."""

    stranger: Stranger
    batch: int
    seconds: float
    issue_s: float
    busy_s: float
    peak: int
    reserved: int
    used: int
    operations: tuple[TimedOperation, ...]

    def capture(self) -> Capture:
        return _captured(self.stranger.name, self.batch)

    def calls(self) -> Iterator[TimedCall]:
        """Its operations as this version reads them."""
        setup = self.stranger.setup
        yield from timed_calls(self.operations, tf32=setup.tf32, tf32_convolutions=setup.tf32_convolutions)


def timed_calls(operations: tuple[TimedOperation, ...], *, tf32: bool, tf32_convolutions: bool) -> Iterator[TimedCall]:
    for each in operations:
        call = each.operation.call(tf32=tf32_convolutions if "convolution" in each.operation.name else tf32)
        if call is not None and each.launches:
            yield TimedCall(call=call, seconds=each.seconds, launches=each.launches)


@cache
def _captured(name: str, batch: int) -> Capture:
    stranger = next(each for each in STRANGERS if each.name == name)
    return capture(stranger.hook, batch, stranger.setup)


def measured_strangers(folder: Path = FOLDER) -> list[MeasuredStranger]:
    """Networks that ran to the end; times and operations of one stand in lines of their own."""
    known = {stranger.name: stranger for stranger in STRANGERS}
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for found in records(folder / "networks.jsonl.gz"):
        if found.get("name") in known and "error" not in found:
            lines.setdefault((found["name"], found["batch"]), {}).update(found)
    return [_read(known[name], found) for (name, _), found in lines.items() if "seconds" in found]


def _read(stranger: Stranger, found: dict[str, Any]) -> MeasuredStranger:
    return MeasuredStranger(
        stranger=stranger, batch=found["batch"], seconds=found["seconds"], issue_s=found["issue_s"],
        busy_s=found.get("busy_s", 0.0), peak=found["peak_bytes"], reserved=found["reserved_bytes"],
        used=found["used_bytes"], operations=tuple(map(TimedOperation.read, found.get("operations", []))),
    )  # fmt: skip


def single_operations(folder: Path = FOLDER) -> Iterator[TimedCall]:
    """Operations that were timed alone, with PyTorch's default arithmetic."""
    for found in records(folder / "operations.jsonl.gz"):
        operations = tuple(map(TimedOperation.read, found.get("operations", [])))
        yield from timed_calls(operations, tf32=False, tf32_convolutions=True)


_RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class _Recurrent(nn.Module):
    def __init__(self, kind: str, inward: int, hidden: int, layers: int, both: bool) -> None:
        super().__init__()
        self.layer = _RECURRENT[kind](inward, hidden, layers, bidirectional=both)

    def forward(self, value: Tensor) -> Tensor:
        return self.layer(value)[0]  # type: ignore[no-any-return]


def recurrent_layers(folder: Path = FOLDER) -> Iterator[TimedCall]:
    """Recurrent layers, which were timed as a whole: forward alone, and with the gradients that are the rest."""
    whole: dict[tuple[str, str], float] = {}
    for found in records(folder / "operations.jsonl.gz"):
        whole.update({(name, shape): seconds for name, shape, seconds in found.get("whole", [])})
    for (name, shape), seconds in whole.items():
        forward = whole.get((name.removesuffix(" trained"), shape))
        if name.endswith(" trained") and forward is not None:
            calls = _recurrent_calls(name.removesuffix(" trained"), shape)
            yield TimedCall(call=calls[0], seconds=forward)
            yield TimedCall(call=calls[1], seconds=max(seconds - forward, 0.2 * seconds))


def _recurrent_calls(kind: str, shape: str) -> list[KernelCall]:
    *sizes, dtype = shape.strip("()").split(", ")
    length, batch, inward, hidden, layers = map(int, sizes[:5])

    def hook(rows: int) -> Any:
        return _Recurrent(kind, inward, hidden, layers, sizes[5] == "True"), torch.randn(length, rows, inward)

    precision = "fp16" if dtype.endswith("16") else "default"
    seen = capture(hook, batch, Setup(precision=precision, optimizer="sgd-plain"))
    return [each.call for each in seen.calls if each.call.family == "recurrent"]
