"""A measuring session: networks measured one by one, their iterations and kernels kept on disk as it goes."""

import fcntl
import gc
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from penstock.core import InputError
from penstock.predict.capture import Capture
from penstock.predict.lab.measuring.affordable_networks import CPU_LIMITS
from penstock.predict.lab.measuring.environment import environment, measured_gpu
from penstock.predict.lab.measuring.isolated_call import isolated_call
from penstock.predict.lab.measuring.training import KernelRecords, MeasuredIteration, Training
from penstock.predict.lab.networks.layer_bags import MOST_BYTES, rows_of_layers
from penstock.predict.lab.networks.random_networks import RandomNetwork
from penstock.predict.lab.records.kernel_rows import KernelRow, load_rows, save_rows
from penstock.tools import write_atomically

log = logging.getLogger(__name__)

_SAVE_EVERY_S = 30.0
_SHARE_OF_MEMORY = 0.3


class MeasuringSession:
    """Rows and networks measured so far, under ``folder``; with ``isolated``, each network in a process of its own."""

    def __init__(
        self, folder: Path, device: str, *, resume: bool = False, flush: bool = True, turns: Path | None = None,
        isolated: bool = False,
    ) -> None:  # fmt: skip
        if device == "cuda" and not torch.cuda.is_available():
            raise InputError("device cuda, but PyTorch sees none", "cpu here", "Check nvidia-smi and the PyTorch build")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.device, self._turns, self._isolated = folder, device, turns, isolated
        self.gpu = measured_gpu(device)
        self.rows: list[KernelRow] = []
        self.networks: list[dict[str, Any]] = []
        self._flush, self._saved_at = flush, time.monotonic()
        if resume and self._rows_file.exists():
            self._resume()

    def measure(
        self, item: RandomNetwork, seconds: float, *, held_out: bool = False, kernels: bool = True,
        seen: Capture | None = None,
    ) -> bool:  # fmt: skip
        """One network: its iteration, and its kernels if asked for. False if it does not fit the device.

        ``seen`` is its capture: what it issues and holds is kept beside what that took, so that costs of the host and
        of memory can be fitted.
        """
        work = partial(self._timed, item, seconds, kernels)
        with _turn(self._turns):
            try:
                iteration, records = isolated_call(work) if self._isolated else work()
            except torch.OutOfMemoryError:
                log.warning("%s at batch %d does not fit", item.label, item.batch)
                return False
            finally:
                if not self._isolated:
                    _clean(self.device)
        rows = records.rows(len(self.networks)) if records else []
        about = asdict(iteration) | {
            "issued": seen.issued if seen else None,
            "followed": asdict(seen.memory) if seen else None,
            "clock_mhz": self.gpu.clock_mhz() if self.gpu else None,
            "kernel_s": _sum(rows),
        }
        self._keep(item, about, rows, held_out=held_out)
        return True

    def _timed(
        self, item: RandomNetwork, seconds: float, kernels: bool
    ) -> tuple[MeasuredIteration, KernelRecords | None]:
        training = Training(item.hook, item.batch, item.setup, self.device)
        return training.time(seconds, self.gpu), training.record() if kernels else None

    def measure_layers(self, item: RandomNetwork) -> bool:
        """The layers of a bag."""
        return self._measure_kernels(item, rows_of_layers)

    def measure_kernels(self, item: RandomNetwork) -> bool:
        """The kernels of a network, and not how long it takes as a whole: that leaves time for more networks."""
        return self._measure_kernels(item, list)

    def _measure_kernels(self, item: RandomNetwork, kept: Callable[[list[KernelRow]], list[KernelRow]]) -> bool:
        """Several processes may share the device: they may build and warm up networks at the same time, but while one
        of them times its kernels, no other may use the device."""
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

    def memory_budget(self) -> float:
        """Bytes a bag may take, or a network measured for its kernels.

        A part of what the device has, however much that is: several processes may hold theirs at once.
        """
        whole = torch.cuda.mem_get_info()[1] if self.device == "cuda" else CPU_LIMITS.bytes
        return min(MOST_BYTES, _SHARE_OF_MEMORY * whole)

    def save(self) -> None:
        """Networks first: rows that name a network never lie on disk without it."""
        about = {"environment": environment(self.device, self.gpu), "networks": self.networks}
        write_atomically(self.folder / "measured.json", json.dumps(about))
        save_rows(self._rows_file, self.rows)
        self._saved_at = time.monotonic()

    @property
    def _rows_file(self) -> Path:
        return self.folder / "measured.npz"

    def _resume(self) -> None:
        found = load_rows(self._rows_file)
        self.networks = self._saved_networks()
        if len(found) and found.networks.max() >= len(self.networks):
            raise InputError(
                f"rows of network {found.networks.max()} in {self._rows_file}",
                f"rows of the {len(self.networks)} networks in measured.json", "Measure anew, without --resume",
            )  # fmt: skip
        self.rows = [found.row(index) for index in range(len(found))]

    def _saved_networks(self) -> list[dict[str, Any]]:
        path = self.folder / "measured.json"
        try:
            return list(json.loads(path.read_text())["networks"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(
                f"{path} cannot be gone on from: {type(problem).__name__}: {problem}",
                "what an earlier session saved", "Measure anew, without --resume",
            ) from None  # fmt: skip

    def _keep(self, item: RandomNetwork, measured: dict[str, Any], rows: list[KernelRow], *, held_out: bool) -> None:
        described = {
            "label": item.label, "batch": item.batch, "precision": item.setup.precision,
            "layout": str(item.setup.layout), "optimizer": item.setup.optimizer, "held_out": held_out,
        }  # fmt: skip
        self.networks.append(described | measured)
        self.rows += rows
        log.info("%s", {**described, "ms": round(measured.get("seconds", 0.0) * 1e3, 3), "rows": len(rows)})
        if self._flush and time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()


def _sum(rows: Iterable[KernelRow]) -> float | None:
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
