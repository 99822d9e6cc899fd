"""Train a planned GPT: the command of jobs that name a model, and by hand under torchrun.

``torchrun --nproc-per-node N -m penstock.runtime.parallel.train PLAN.json --steps 20`` needs nothing but a plan that
``penstock plan --json`` wrote. As a job the plan of the present width is in the file ``PENSTOCK_PLAN`` names. State is
saved whole, independent of the plan (:mod:`~penstock.runtime.parallel.full_state`), every so often and when the job is
asked to stop; a job that is resized is stopped, started again under the plan of its new width, and goes on from there.
"""

import argparse
import json
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from penstock.core import InputError, ParallelPlan, gpt_layers, is_url
from penstock.runtime.parallel.full_state import newest, restore, save
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import PlannedModel, build
from penstock.runtime.parallel.token_data import CountingTokens, FileTokens, TokenSource

PLAN_VARIABLE, CHECKPOINT_VARIABLE = "PENSTOCK_PLAN", "PENSTOCK_CHECKPOINT_DIR"


def main(words: list[str] | None = None) -> None:
    stop = TerminationSignal()
    options = _options(words)
    plan = read_plan(options.plan)
    device = _join()
    prepared(options, plan, device, stop).run()
    dist.destroy_process_group()


def read_plan(path: Path | None) -> ParallelPlan:
    """A plan, alone or inside what ``penstock plan --json`` prints."""
    given = path or os.environ.get(PLAN_VARIABLE)
    if given is None:
        raise InputError("no plan", f"a file as the first argument, or {PLAN_VARIABLE}", "Try `penstock plan --json`")
    value = json.loads(Path(given).read_text(encoding="utf-8"))
    return ParallelPlan.from_mapping(value.get("plan", value))


@dataclass(frozen=True, slots=True)
class Agreement:
    """What all processes of a run know after a step: whether to end, whether to save, and the loss."""

    ends: bool
    saves: bool
    loss: float


class TerminationSignal:
    """Whether somebody asked this process to end; all processes of a run end after the same step."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def agree(self, loss: Tensor | None, device: torch.device, *, save_now: bool) -> Agreement:
        """One small reduction: anybody's wish counts, and the last stage tells the others its loss."""
        known = -math.inf if loss is None else float(loss)
        told = torch.tensor([self._asked, save_now, known], dtype=torch.float64, device=device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        ends, saves, common = told.tolist()
        return Agreement(bool(ends), bool(saves), common)

    def _ask(self, *_: object) -> None:
        self._asked = True


@dataclass(slots=True)
class TrainingRun:
    """One run of the trainer: a planned model, its optimizer, and where its state is kept."""

    model: PlannedModel
    optimizer: PlannedOptimizer
    source: TokenSource
    stop: TerminationSignal
    steps: int
    folder: Path | None
    save_every_s: float
    done: int = 0

    def run(self) -> None:
        """Make the steps that are left; save every so often, when asked to end, and after the last one."""
        saved_at, ends = time.monotonic(), False
        while self.done < self.steps and not ends:
            loss = self._step()
            due = self.folder is not None and time.monotonic() - saved_at >= self.save_every_s
            agreed = self.stop.agree(loss, self.model.layout.device, save_now=due)
            _say(f"step={self.done} total={self.steps} loss={agreed.loss:.4f}")
            ends = agreed.ends
            if self.folder and (ends or agreed.saves or self.done == self.steps):
                self._checkpoint(self.folder)
                saved_at = time.monotonic()

    def _step(self) -> Tensor | None:
        plan, shape = self.model.layout.plan, self.model.shape
        self.done += 1
        loss = self.model.step(*self.source.batch(self.done, plan.global_batch, shape.sequence))
        self.optimizer.step()
        return loss

    def _checkpoint(self, folder: Path) -> None:
        started = time.monotonic()
        path = save(folder, self.done, self.model, self.optimizer)
        _say(f"checkpointed step={self.done} path={path} blocking_s={time.monotonic() - started:.3f}")


def prepared(
    options: argparse.Namespace, plan: ParallelPlan, device: torch.device, stop: TerminationSignal
) -> TrainingRun:
    """The model with its newest saved state, if there is any, whatever plan that was saved under."""
    shape = GPTShape(
        layers=options.layers or gpt_layers(plan.ops), hidden=options.hidden, heads=options.heads,
        vocabulary=options.vocabulary, sequence=options.sequence,
    )  # fmt: skip
    saved = newest(options.checkpoints) if options.checkpoints else None
    model = build(plan, shape, device=device, weights=saved.weights() if saved else None)
    optimizer = PlannedOptimizer(model, lambda weights: torch.optim.AdamW(weights, lr=options.lr))
    if saved:
        restore(saved, model, optimizer)
        _say(f"resumed from step {saved.step} under a plan for {plan.devices} devices")
    tokens = FileTokens(options.data, shape.vocabulary) if options.data else CountingTokens(shape.vocabulary)
    return TrainingRun(
        model=model, optimizer=optimizer, source=tokens, stop=stop, steps=options.steps, folder=options.checkpoints,
        save_every_s=options.checkpoint_every, done=saved.step if saved else 0,
    )  # fmt: skip


def _say(text: str) -> None:
    if dist.get_rank() == 0:
        print(f"penstock: {text}", flush=True)


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock.runtime.parallel.train", description="Train a planned GPT.")
    parser.add_argument("plan", type=Path, nargs="?", help=f"what `penstock plan --json` wrote; else {PLAN_VARIABLE}")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, help="as many as the plan has, if left out")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--data", type=Path, help="a file of 16-bit tokens; counting tokens if left out")
    parser.add_argument(
        "--checkpoints", type=_folder, default=os.environ.get(CHECKPOINT_VARIABLE), help="where to save"
    )
    parser.add_argument("--checkpoint-every", type=float, default=600.0, help="seconds between checkpoints")
    return parser.parse_args(words)


def _folder(text: str) -> Path:
    if is_url(text):
        raise InputError(
            f"checkpoints of a planned model at {text}",
            "a directory that all machines see",
            "Mount it, or choose another",
        )
    return Path(text)


def _join() -> torch.device:
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        return device
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return torch.device("cpu")


if __name__ == "__main__":
    main()
