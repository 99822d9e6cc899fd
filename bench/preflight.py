"""How long a node's check takes, which mutants it finds, and what watching a model costs beside running it.

``make bench-preflight``. Seconds are wall and processor time of this machine; a shared one is slower than itself.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from penstock.client import Client, DataDir, ensure_server
from penstock.diagnose import NodeCheck, TrainingStep, check_operators
from penstock.predict import Setup, load_hook, training_task

_T = TypeVar("_T")


def main() -> int:
    node()
    jobs()
    mutants()
    overhead()
    return 0


def node() -> None:
    print("the check of a node (target: below 60 s)")
    for name, check in (("quick", NodeCheck(quick=True)), ("whole", NodeCheck())):
        began = time.process_time()
        report = check.run()
        print(f"  {name:<8} {report.seconds:6.1f} s, {time.process_time() - began:6.1f} s of processors, "
              f"{len(report.checks)} checks, {'fit' if report.ok else report.reason}")  # fmt: skip


def jobs() -> None:
    """From the submission of a job that does nothing to its end, on a real server of this machine."""
    print("a job that does nothing, from submission to end")
    with tempfile.TemporaryDirectory() as folder:
        client = ensure_server(Path(folder) / "data", options=["--slots", "2"], within_s=120.0)
        try:
            for name in ("off", "quick", "quick"):
                began = time.perf_counter()
                _done(client, {"preflight": name, "environment": {"working_dir": folder}})
                print(f"  preflight: {name:<6} {time.perf_counter() - began:6.1f} s")
        finally:
            address = DataDir(Path(folder) / "data").address()
            client.close()
            if address is not None:
                os.kill(address.pid, signal.SIGTERM)
                while DataDir(Path(folder) / "data").is_served():
                    time.sleep(0.1)


def _done(client: Client, spec: dict[str, Any]) -> None:
    job = client.submit({"command": [sys.executable, "-c", ""], "work": 1, "profile": "never", **spec}).job.id
    while (state := client.job(job).state) not in ("finished", "failed"):
        time.sleep(0.05)
    assert state == "finished", client.job(job).reason


def mutants() -> None:
    """Operators with a mistake inside of a model: found at all, and named first."""
    from tests.diagnose.mutants import MUTANTS
    from tests.diagnose.networks import everything_step

    print("mutants (target: all of 40 found and located)")
    for phase in ("forward", "backward", "update"):
        found = located = 0
        some = [mutant for mutant in MUTANTS if mutant.phase == phase]
        began = time.perf_counter()
        for mutant in some:
            updates = torch.optim.SGD if mutant.operator.startswith("SGD") else torch.optim.AdamW
            with mutant.broken():
                report = check_operators(everything_step(updates if phase == "update" else None))
            found += not report.ok
            located += not report.ok and report.defects[0].suspect.operator == mutant.operator
        seconds = (time.perf_counter() - began) / len(some)
        print(f"  {phase:<9} {len(some)} mutants, {found} found, {located} named first, {seconds:.1f} s each")
    false = sum(not check_operators(everything_step(dtype=dtype, seed=seed)).ok
                for dtype in (torch.float32, torch.bfloat16, torch.float16) for seed in range(10))  # fmt: skip
    print(f"  30 runs of a sound model, 10 seeds in 3 dtypes: {false} false alarms")


def overhead() -> None:
    print("watching a training step beside running it (the digest's target: below 6 times)")
    for name, hook, batch in (
        ("MLP", _mlp, 64), ("resnet18", load_hook("resnet18"), 4), ("transformer", _transformer, 8)
    ):  # fmt: skip
        step = TrainingStep(build=_built(hook, batch), optimizer=lambda w: torch.optim.AdamW(w, lr=1e-3, fused=True))
        step.plain()
        plain, _ = _timed(step.plain)
        watched, report = _timed(partial(check_operators, step))
        print(
            f"  {name:<12} {plain:6.2f} s plain, {watched:6.2f} s watched, {watched / plain:.1f}x, {report.calls} calls"
        )


def _timed(work: Callable[[], _T]) -> tuple[float, _T]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


def _built(
    hook: Callable[[int], tuple[nn.Module, torch.Tensor]], batch: int
) -> Callable[[], tuple[nn.Module, Callable[[], torch.Tensor]]]:
    def build() -> tuple[nn.Module, Callable[[], torch.Tensor]]:
        task = training_task(hook, batch, Setup(precision="fp32"), "cpu")
        return task.model, task.forward

    return build


def _mlp(batch: int) -> tuple[nn.Module, torch.Tensor]:
    layers = [layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.GELU())]
    return nn.Sequential(*layers), torch.randn(batch, 1024)


def _transformer(batch: int) -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0, activation=F.gelu)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(batch, 64, 256)


if __name__ == "__main__":
    sys.exit(main())
