"""Measures one network after the other until the time is up, and keeps what it has on disk as it goes."""

import fcntl
import gc
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from penstock.core import InputError, PenstockError
from penstock.predict.capture import Capture, Setup, capture
from penstock.predict.kernels.calls import Layout
from penstock.predict.kernels.tiling import Array
from penstock.predict.lab.environment import environment, measured_gpu
from penstock.predict.lab.isolated import apart
from penstock.predict.lab.networks.layer_bags import MOST_BYTES, bag, of_layers
from penstock.predict.lab.networks.suite import CPU_SCALES, Draw, draw
from penstock.predict.lab.rows import OpRow, load_rows, save_rows
from penstock.predict.lab.running import Iteration, Records, Training
from penstock.predict.zoo import NETWORKS

log = logging.getLogger(__name__)

_SAVE_EVERY_S = 30.0
_RATES = {"bf16": 3e14, "fp16": 3e14, "amp-bf16": 2e14, "amp-fp16": 2e14, "tf32": 1e14, "fp32": 2e13}
_BYTES_PER_S = 1.5e12
_CPU_RATE, _CPU_BYTES_PER_S = 3e10, 5e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one draw may cost; a larger one is measured at a smaller batch."""

    seconds: float
    bytes: float


GPU_LIMITS = Limits(seconds=0.08, bytes=6e10)
_KERNEL_SECONDS = 0.04
"""What an iteration may take where only its kernels are measured."""
CPU_LIMITS = Limits(seconds=0.5, bytes=2e9)
_SMALLEST_BATCH_ON_CPU = 2
_FEW = 2
"""The smallest batch that any network can be captured at: norms over a batch of one may have nothing to average."""
_SMALLEST_SHARE = 0.05
_SHARE_OF_MEMORY = 0.3
_LOST = "CUDA error"
"""A process in which a kernel failed gets nothing more from its device; another one may go on."""


class Session:
    """Rows and networks measured so far, under ``folder``; with ``each_apart``, each in a process of its own."""

    def __init__(
        self, folder: Path, device: str, *, resume: bool = False, flush: bool = True, turns: Path | None = None,
        each_apart: bool = False,
    ) -> None:  # fmt: skip
        if device == "cuda" and not torch.cuda.is_available():
            raise InputError("device cuda, but PyTorch sees none", "cpu here", "Check nvidia-smi and the PyTorch build")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.device, self._turns, self._each_apart = folder, device, turns, each_apart
        self.gpu = measured_gpu(device)
        self.rows: list[OpRow] = []
        self.networks: list[dict[str, Any]] = []
        self._flush, self._saved_at = flush, time.monotonic()
        if resume and self._rows_file.exists():
            self._load()

    def measure(
        self, item: Draw, seconds: float, *, held_out: bool = False, kernels: bool = True,
        issued: dict[str, int] | None = None,
    ) -> bool:  # fmt: skip
        """One network: its iteration, and its kernels if asked for. False if it does not fit the device."""
        work = partial(self._timed, item, seconds, kernels)
        with _turn(self._turns):
            try:
                iteration, records = apart(work) if self._each_apart else work()
            except torch.OutOfMemoryError:
                log.warning("%s at batch %d does not fit", item.label, item.batch)
                return False
            finally:
                if not self._each_apart:
                    _clean(self.device)
        rows = records.rows(len(self.networks)) if records else []
        about = asdict(iteration) | {
            "issued": issued,
            "clock_mhz": self.gpu.clock_mhz() if self.gpu else None,
            "kernel_s": _sum(rows),
        }
        self._keep(item, about, rows, held_out=held_out)
        return True

    def _timed(self, item: Draw, seconds: float, kernels: bool) -> tuple[Iteration, Records | None]:
        training = Training(item.hook, item.batch, item.setup, self.device)
        return training.time(seconds, self.gpu), training.record() if kernels else None

    def measure_layers(self, item: Draw) -> bool:
        """The layers of a bag."""
        return self._measure_kernels(item, of_layers)

    def measure_kernels(self, item: Draw) -> bool:
        """The kernels of a network, and not how long it takes as a whole: that leaves time for more networks."""
        return self._measure_kernels(item, list)

    def _measure_kernels(self, item: Draw, kept: Callable[[list[OpRow]], list[OpRow]]) -> bool:
        """Others may load kernels at the same time; while these are timed, nobody may."""
        try:
            with _turn(self._turns, shared=True):
                training = Training(item.hook, item.batch, item.setup, self.device)
                training.warm_up(1)
            with _turn(self._turns):
                records = training.record()
        except torch.OutOfMemoryError:
            log.warning("%s does not fit", item.label)
            return False
        finally:
            training = None  # type: ignore[assignment]
            _clean(self.device)
        self._keep(item, {}, kept(records.rows(len(self.networks))), held_out=False)
        return True

    def room(self) -> float:
        """Bytes a bag may take, or a network measured for its kernels.

        A part of what the device has, however much that is: several processes may hold theirs at once.
        """
        whole = torch.cuda.mem_get_info()[1] if self.device == "cuda" else CPU_LIMITS.bytes
        return min(MOST_BYTES, _SHARE_OF_MEMORY * whole)

    def save(self) -> None:
        save_rows(self._rows_file, self.rows)
        about = {"environment": environment(self.device, self.gpu), "networks": self.networks}
        (self.folder / "measured.json").write_text(json.dumps(about))
        self._saved_at = time.monotonic()

    @property
    def _rows_file(self) -> Path:
        return self.folder / "measured.npz"

    def _load(self) -> None:
        found = load_rows(self._rows_file)
        self.networks = json.loads((self.folder / "measured.json").read_text())["networks"]
        self.rows = [
            OpRow(
                call=found.calls[i], seconds=float(found.seconds[i]), count=int(found.counts[i]),
                launches=float(found.launches[i]), kernel=found.kernels[i], network=int(found.networks[i]),
            )
            for i in range(len(found))
        ]  # fmt: skip

    def _keep(self, item: Draw, measured: dict[str, Any], rows: list[OpRow], *, held_out: bool) -> None:
        described = {
            "label": item.label, "batch": item.batch, "precision": item.setup.precision,
            "layout": str(item.setup.layout), "optimizer": item.setup.optimizer, "held_out": held_out,
        }  # fmt: skip
        self.networks.append(described | measured)
        self.rows += rows
        log.info("%s", {**described, "ms": round(measured.get("seconds", 0.0) * 1e3, 3), "rows": len(rows)})
        if self._flush and time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()


def _sum(rows: Iterable[OpRow]) -> float | None:
    return sum(row.seconds * row.count for row in rows) or None


@contextmanager
def _turn(file: Path | None, *, shared: bool = False) -> Iterator[None]:
    """Several processes prepare networks side by side; whoever holds the lock on ``file`` has the device to itself,
    or shares it with others who do not measure."""
    if file is None:
        yield
        return
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def _clean(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def suite(session: Session, end: float, *, seed: int, seconds: float) -> int:
    """Random networks until ``end`` on the monotonic clock, on a GPU by turns with bags of layers; returns how many
    were measured."""

    def measure(number: int) -> bool:
        if session.device == "cuda" and number % 2:
            return session.measure_layers(bag(number, session.room()))
        item, seen = affordable_draw(number, session.device)
        return session.measure(item, seconds, issued=seen.issued)

    return _one_by_one(session, end, seed, measure)


def bags(session: Session, end: float, *, seed: int) -> int:
    """Bags of random layers until ``end`` on the monotonic clock; returns how many were measured."""
    return _one_by_one(session, end, seed, lambda number: session.measure_layers(bag(number, session.room())))


def networks(session: Session, end: float, *, seed: int) -> int:
    """Kernels of random networks until ``end`` on the monotonic clock; returns how many networks were measured."""

    limits = Limits(seconds=_KERNEL_SECONDS, bytes=session.room())

    def measure(number: int) -> bool:
        return session.measure_kernels(affordable(draw(number, session.device), session.device, limits)[0])

    return _one_by_one(session, end, seed, measure)


def _one_by_one(session: Session, end: float, seed: int, measure: Callable[[int], bool]) -> int:
    """What cannot run is left out."""
    measured = 0
    for number in count(seed):
        if time.monotonic() >= end:
            break
        try:
            measured += measure(number)
        except (RuntimeError, ValueError) as problem:
            reason = str(problem).splitlines()[0]
            if _LOST in reason:
                raise PenstockError(
                    f"draw {number} broke the device: {reason}. What was saved before is kept: go on with --resume "
                    f"and another --seed"
                ) from problem
            log.warning("draw %d is left out: %s", number, reason)
    session.save()
    return measured


def affordable_draw(number: int, device: str) -> tuple[Draw, Capture]:
    """A draw within the limits. A CPU gets a smaller network rather than a large one at a batch of 1, and limits that
    differ from draw to draw, so that three minutes hold long iterations and many short ones."""
    if device == "cuda":
        return affordable(draw(number, device), device)
    limits = replace(CPU_LIMITS, seconds=CPU_LIMITS.seconds * _SMALLEST_SHARE ** Random(number).random())
    for scale in CPU_SCALES:
        item, seen = affordable(draw(number, device, scale=scale), device, limits, fewest=_SMALLEST_BATCH_ON_CPU)
        if _load(seen, item, device, limits).max() < 1:
            break
    return item, seen


def affordable(
    item: Draw, device: str, limits: Limits | None = None, *, fewest: int = 1
) -> tuple[Draw, Capture]:  # fmt: skip
    """The same network, its batch halved until it is within the limits or at ``fewest``, and its capture.

    What an iteration takes grows with its batch along a line, so that two captures tell how often to halve.
    """
    limits = limits or (GPU_LIMITS if device == "cuda" else CPU_LIMITS)

    @cache
    def at(batch: int) -> Capture:
        return capture(item.hook, batch, item.setup, device=device)

    def load(batch: int) -> Array:
        return _load(at(batch), item, device, limits)

    batch, few = item.batch, max(fewest, _FEW)
    if batch > few and load(few).max() >= 1:
        batch = few
    elif batch > few and load(batch).max() >= 1:
        slope = (load(batch) - load(few)) / (batch - few)
        while batch > few and (load(few) + slope * (batch - few)).max() >= 1:
            batch = max(few, batch // 2)
    while batch > fewest and load(batch).max() >= 1:
        batch = max(fewest, batch // 2)
    return replace(item, batch=batch), at(batch)


def _load(seen: Capture, item: Draw, device: str, limits: Limits) -> Array:
    """Seconds, judged by a roofline, and bytes of an iteration, as shares of what it may take."""
    rate, width = (_RATES[item.setup.precision], _BYTES_PER_S) if device == "cuda" else (_CPU_RATE, _CPU_BYTES_PER_S)
    moved = sum((each.call.read_bytes + each.call.written_bytes) * each.count for each in seen.calls)
    return np.array([(seen.flops / rate + moved / width) / limits.seconds, seen.memory.peak / limits.bytes])


def named(
    session: Session, end: float, *, seconds: float, precisions: Iterable[str] = ("bf16", "tf32"),
    only: Callable[[str], bool] = lambda _: True, layout: Layout = Layout.CHANNELS_FIRST,
) -> int:  # fmt: skip
    """The networks of the zoo at their batch sizes, and the kernels of each at its second one."""
    measured = 0
    for network, precision in product(filter(lambda network: only(network.name), NETWORKS), precisions):
        setup = Setup(precision=precision, optimizer=network.optimizer, layout=layout)
        for position, batch in enumerate(network.batches):
            if time.monotonic() > end:
                log.warning("time is up before %s", network.name)
                return measured
            item = Draw(label=network.name, hook=network.hook, batch=batch, setup=setup)
            measured += session.measure(item, seconds, held_out=network.held_out, kernels=position == 1)
    return measured
