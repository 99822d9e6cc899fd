"""What was measured of the strangers, read back: iterations joined with their operations, and single operations."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from bench.strangers.catalogue import STRANGERS, Stranger
from bench.strangers.measure import records, zoo
from penstock.predict.capture import Capture, Setup, capture
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.operation_fitting import TimedCall
from penstock.predict.lab.records.operations import TimedOperation

FOLDER = Path(__file__).parent / "measurements"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredStranger:
    """A stranger at a batch size: seconds of an iteration, of its host and of its device, bytes, operations.

    Seconds are medians over passes, because hosts take longer at one time than at another.
    """

    stranger: Stranger
    batch: int
    seconds: float
    passes: tuple[float, ...]
    """Seconds of an iteration in each of them."""
    issue_s: float
    busy_s: float
    peak: int
    reserved: int
    used: int
    operations: tuple[TimedOperation, ...]
    host_s: Mapping[str, float]
    """What the host needs to hand one operation to the device, by its name."""

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
    stranger = next(each for each in (*STRANGERS, *learnable()) if each.name == name)
    return capture(stranger.hook, batch, stranger.setup)


@cache
def learnable() -> tuple[Stranger, ...]:
    return tuple(zoo())


def measured_strangers(folder: Path = FOLDER) -> list[MeasuredStranger]:
    """Networks that ran to the end; passes and operations of one stand in lines of their own."""
    return list(_measured(STRANGERS, folder))


def measured_zoo(folder: Path = FOLDER) -> list[MeasuredStranger]:
    """Networks of the zoo and random ones that were measured beside the strangers, to learn host costs from."""
    return list(_measured(learnable(), folder))


def _measured(strangers: Iterable[Stranger], folder: Path) -> Iterator[MeasuredStranger]:
    known = {stranger.name: stranger for stranger in strangers}
    lines: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for found in records(folder / "networks.jsonl.gz"):
        if found.get("name") in known and "error" not in found:
            lines[found["name"], found["batch"]].append(found)
    for (name, batch), some in lines.items():
        passes = [each for each in some if "seconds" in each]
        if passes:
            watched = next((each for each in some if "operations" in each), {})
            yield _read(known[name], batch, passes, watched)


def _read(stranger: Stranger, batch: int, passes: list[dict[str, Any]], watched: dict[str, Any]) -> MeasuredStranger:
    first, seconds = passes[0], tuple(each["seconds"] for each in passes)
    return MeasuredStranger(
        stranger=stranger, batch=batch, seconds=median(seconds), passes=seconds,
        issue_s=median(each["issue_s"] for each in passes), busy_s=watched.get("busy_s", 0.0),
        peak=first["peak_bytes"], reserved=first["reserved_bytes"], used=first["used_bytes"],
        operations=tuple(map(TimedOperation.read, watched.get("operations", []))), host_s=first["host_s"],
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
