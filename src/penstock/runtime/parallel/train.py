"""Train a planned GPT: the command of jobs that name a model, and by hand under torchrun.

``torchrun --nproc-per-node N -m penstock.runtime.parallel.train PLAN.json --steps 20`` needs nothing but a plan that
``penstock plan --json`` wrote. As a job the plan of the present width is in the file ``PENSTOCK_PLAN`` names. State is
saved whole, independent of the plan (:mod:`~penstock.runtime.parallel.full_state`), every so often and when the job is
asked to stop; a job that is resized is stopped, started again under the plan of its new width, and goes on from there.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from penstock.core import InputError, ParallelPlan, gpt_layers
from penstock.runtime.parallel.full_state import newest, restore, save
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import PlannedModel, build
from penstock.runtime.parallel.token_data import CountingTokens, FileTokens, TokenSource

PLAN_VARIABLE, CHECKPOINT_VARIABLE = "PENSTOCK_PLAN", "PENSTOCK_CHECKPOINT_DIR"


def main(words: list[str] | None = None) -> None:
    stop = StopRequest()
    options = _options(words)
    plan = read_plan(options.plan)
    device = _join()
    _train(options, plan, device, stop)
    dist.destroy_process_group()


def read_plan(path: Path | None) -> ParallelPlan:
    """A plan, alone or inside what ``penstock plan --json`` prints."""
    given = path or os.environ.get(PLAN_VARIABLE)
    if given is None:
        raise InputError("no plan", f"a file as the first argument, or {PLAN_VARIABLE}", "Try `penstock plan --json`")
    value = json.loads(Path(given).read_text(encoding="utf-8"))
    return ParallelPlan.from_mapping(value.get("plan", value))


class StopRequest:
    """Whether somebody asked this process to end; all processes of a run agree on the step after which they do."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def agreed(self, device: torch.device, *, save_now: bool) -> tuple[bool, bool]:
        """(whether anybody was asked to end, whether anybody wants to save), the same answer everywhere."""
        flags = torch.tensor([self._asked, save_now], dtype=torch.int32, device=device)
        dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        ends, saves = flags.tolist()
        return bool(ends), bool(saves)

    def _ask(self, *_: object) -> None:
        self._asked = True


def _train(options: argparse.Namespace, plan: ParallelPlan, device: torch.device, stop: StopRequest) -> None:
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
    source: TokenSource = (
        FileTokens(options.data, shape.vocabulary) if options.data else CountingTokens(shape.vocabulary)
    )
    for step, is_last in _steps(saved.step if saved else 0, options, model, optimizer, device, stop):
        loss = model.step(*source.batch(step, plan.global_batch, shape.sequence))
        optimizer.step()
        if loss is not None and is_last:
            print(f"penstock: step={step} total={options.steps} loss={loss.item():.4f}", flush=True)


def _steps(
    done: int, options: argparse.Namespace, model: PlannedModel, optimizer: PlannedOptimizer, device: torch.device,
    stop: StopRequest,
) -> Iterator[tuple[int, bool]]:  # fmt: skip
    """Numbers of the steps to make, with whether this process tells; state is saved between and after them."""
    is_last = dist.get_rank() == dist.get_world_size() - 1
    saved_at, step, ends = time.monotonic(), done, False
    while step < options.steps and not ends:
        step += 1
        yield step, is_last
        due = bool(options.checkpoints) and time.monotonic() - saved_at >= options.checkpoint_every
        ends, saves = stop.agreed(device, save_now=due)
        if options.checkpoints and (ends or saves or step == options.steps):
            _checkpoint(options.checkpoints, step, model, optimizer)
            saved_at = time.monotonic()


def _checkpoint(folder: Path, step: int, model: PlannedModel, optimizer: PlannedOptimizer) -> None:
    started = time.monotonic()
    path = save(folder, step, model, optimizer)
    _say(f"checkpointed step={step} path={path} blocking_s={time.monotonic() - started:.3f}")


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
    parser.add_argument("--checkpoints", type=Path, default=os.environ.get(CHECKPOINT_VARIABLE), help="where to save")
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
