"""Train a planned GPT: the command of jobs that name a model, and by hand under torchrun.

``torchrun --nproc-per-node N -m penstock.runtime.parallel.train PLAN.json --steps 20`` needs nothing but a plan that
``penstock plan --json`` wrote. As a job the plan of the present width is in the file ``PENSTOCK_PLAN`` names. State is
saved in the background, for any plan (:mod:`~penstock.runtime.parallel.planned_state`), every so often and when the job
is asked to stop; a job that is resized is stopped, started again under the plan of its new width, and goes on from
there. Between checkpoints snapshots stay in memory, as with :mod:`penstock.elastic`.
"""

import argparse
import json
import math
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from penstock.core import (
    MEMORY_DIR,
    SAVED_STEP,
    CheckpointFailed,
    CheckpointSaved,
    CheckpointUnreadable,
    InputError,
    ParallelPlan,
    gpt_layers,
    is_url,
)
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.memory.snapshots import open_snapshots
from penstock.runtime.checkpoints.saving import Interval, Keeper, Wish, snapshots_within
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import PlannedModel, build
from penstock.runtime.parallel.planned_state import PlannedState
from penstock.runtime.parallel.token_data import CountingTokens, FileTokens, PackedTokens, TokenSource

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
    wish: Wish
    loss: float


class TerminationSignal:
    """Whether somebody asked this process to end; all processes of a run end after the same step."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def agree(self, loss: Tensor | None, device: torch.device, wish: Wish) -> Agreement:
        """One small reduction: anybody's wish counts, and the last stage tells the others its loss."""
        known = -math.inf if loss is None else float(loss)
        told = torch.tensor([self._asked, wish, known], dtype=torch.float64, device=device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        ends, wished, common = told.tolist()
        return Agreement(bool(ends), Wish(int(wished)), common)

    def _ask(self, *_: object) -> None:
        self._asked = True


class PrintedNews:
    """Says what becomes of checkpoints in lines that whoever reads the output understands."""

    def say(self, message: CheckpointSaved | CheckpointFailed | CheckpointUnreadable, /) -> None:
        if isinstance(message, CheckpointUnreadable):
            used = "" if message.used is None else f" used={message.used}"
            _say(f"unreadable step={message.step}{used} reason={' '.join(message.reason.split())}")
        if isinstance(message, CheckpointSaved):
            _say(f"checkpointed step={message.step} path={message.path} blocking_s={message.blocking_s or 0.0:.3f}")


@dataclass(slots=True)
class TrainingRun:
    """One run of the trainer: a planned model, its optimizer, and who keeps its state."""

    model: PlannedModel
    optimizer: PlannedOptimizer
    source: TokenSource
    stop: TerminationSignal
    steps: int
    keeper: Keeper
    done: int = 0

    def run(self) -> None:
        """Make the steps that are left; save every so often, when asked to end, and after the last one."""
        ends = False
        while self.done < self.steps and not ends:
            loss = self._step()
            wish = self.keeper.due(self.done) if self._is_main else Wish.NOTHING
            agreed = self.stop.agree(loss, self.model.layout.device, wish)
            _say(f"step={self.done} total={self.steps} loss={agreed.loss:.4f}")
            ends = agreed.ends
            self.keeper.obey(agreed.wish, self.done, is_main=self._is_main)
            self.keeper.poll(self.done)
        if self.keeper.save_and_wait(self.done, is_main=self._is_main):
            self.keeper.forget_snapshots()

    @property
    def _is_main(self) -> bool:
        return dist.get_rank() == 0

    def _step(self) -> Tensor | None:
        plan, shape = self.model.layout.plan, self.model.shape
        self.done += 1
        loss = self.model.step(*self.source.batch(self.done, plan.global_batch, shape.sequence))
        self.optimizer.step()
        return loss


def prepared(
    options: argparse.Namespace, plan: ParallelPlan, device: torch.device, stop: TerminationSignal
) -> TrainingRun:
    """The model with its newest saved state, if there is any, whatever plan that was saved under."""
    shape = GPTShape(
        layers=options.layers or gpt_layers(plan.ops), hidden=options.hidden, heads=options.heads,
        vocabulary=options.vocabulary, sequence=options.sequence,
    )  # fmt: skip
    model = build(plan, shape, device=device)
    optimizer = PlannedOptimizer(model, lambda weights: torch.optim.AdamW(weights, lr=options.lr))
    tokens = _tokens(options.data, shape, device)
    keeper = _keeper(options, PlannedState(model, optimizer))
    run = TrainingRun(
        model=model, optimizer=optimizer, source=tokens, stop=stop, steps=options.steps, keeper=keeper,
        done=resume(keeper),
    )  # fmt: skip
    if run.done:
        _say(f"resumed from step {run.done} under a plan for {plan.devices} devices")
    return run


def resume(keeper: Keeper) -> int:
    """Take over the newest state there is, in memory or saved; returns its step. All processes of the group call it."""
    keeper.join(dist.new_group(backend="gloo"))
    is_main = dist.get_rank() == 0
    if is_main:
        keeper.tidy()
    found = keeper.find(is_main=is_main)
    step = keeper.load(found)
    if found.nodes:
        keeper.begin_shard_snapshots(found, dist.new_group(backend="gloo"))
    return step


def _keeper(options: argparse.Namespace, state: PlannedState) -> Keeper:
    memory = open_snapshots(os.environ.get(MEMORY_DIR)) if options.checkpoints else None
    files = Checkpoints(options.checkpoints, memory=memory) if options.checkpoints else None
    interval = Interval(options.checkpoint_every, None)
    expected = int(os.environ.get(SAVED_STEP) or 0)
    return Keeper(state, PrintedNews(), files, interval, snapshots_within(interval), expected)


def _tokens(given: str | None, shape: GPTShape, device: torch.device) -> TokenSource:
    """Packed tokens, a flat file of them, or some that are made up."""
    if given is None:
        return CountingTokens(shape.vocabulary)
    if is_url(given) or Path(given).is_dir():
        return PackedTokens(given, shape.vocabulary, shape.sequence, device)
    return FileTokens(Path(given), shape.vocabulary)


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
    parser.add_argument("--data", help="packed tokens or a file of 16-bit ones; counting tokens if left out")
    parser.add_argument("--checkpoints", default=os.environ.get(CHECKPOINT_VARIABLE), help="where to save")
    parser.add_argument("--checkpoint-every", type=float, default=600.0, help="seconds between checkpoints")
    return parser.parse_args(words)


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
