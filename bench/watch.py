"""What watching a run costs: steps a second with and without it, side by side.

``python -m bench.watch [SECONDS]`` trains a small network on this machine's CPU in one process. Steps take turns: one
bare, one with the clock and the watch of the loss that every step of an elastic run has, so that whatever else the
machine does falls on both alike; their difference is in processor time, beside a second bare loop as the control. Then
it trains for SECONDS (60) with profiles as often as they are allowed, and says what share of the processor's time they
took: by their own account, and by what the run took beyond as many bare steps.
"""

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

SIZES = ((64, 2, 1500), (256, 6, 400), (512, 8, 120))
"""Width and depth of the networks, and how many steps of each kind are compared."""
WARM_UP = 20
PROFILED = (256, 6)
_BATCH = 64


def main() -> None:
    import torch

    torch.set_num_threads(1)
    _every_step()
    _profiles(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)


def _every_step() -> None:
    print("clock and loss watch, processor time of a step, medians of paired differences")
    print(f"{'network':>10} {'bare':>10} {'steps/s':>9} {'watched':>9} {'more':>10} {'share':>8} {'bare again':>11}")
    for width, depth, pairs in SIZES:
        bare, watched, again = _trainer(width, depth), _trainer(width, depth, watched=True), _trainer(width, depth)
        for _ in range(WARM_UP):
            bare(), watched(), again()
        turns = ((bare, watched, again), (again, bare, watched), (watched, again, bare))
        taken = [{step: _cpu_s(step) for step in turns[number % 3]} for number in range(pairs)]
        rows = [(one[bare], one[watched], one[again]) for one in taken]
        usual = statistics.median(row[0] for row in rows)
        more = statistics.median(row[1] - row[0] for row in rows)
        noise = statistics.median(row[2] - row[0] for row in rows)
        print(
            f"{f'{depth} x {width}':>10} {1000 * usual:>7.3f} ms {1 / usual:>9.1f} {1 / (usual + more):>9.1f} "
            f"{1e6 * more:>7.1f} us {more / usual:>8.2%} {noise / usual:>11.2%}"
        )


def _profiles(seconds: float) -> None:
    import torch

    from penstock.runtime.watch.profile_sampler import BUDGET, STEPS, ProfileSampler

    step = _trainer(*PROFILED)
    for _ in range(WARM_UP):
        step()
    usual = statistics.median(_cpu_s(step) for _ in range(100))
    sampler = ProfileSampler(torch.device("cpu"), first_cost_s=0.1)
    began, spent, bare, steps, tables = time.monotonic(), 0.0, [], 0, []
    while time.monotonic() - began < seconds:
        is_profiled = sampler.is_profiling
        took, table = _sampled(sampler, step, steps)
        spent, steps = spent + took, steps + 1
        tables += [table] if table is not None else []
        if not is_profiled and not sampler.is_profiling:
            bare.append(took)
    sampler.close()
    more = spent - steps * statistics.mean(bare)
    print(f"\nprofiles of {STEPS} steps, at most {BUDGET:.1%} of the time; {seconds:.0f} s of training")
    print(f"{'steps':>7} {'profiles':>9} {'a bare step':>12} {'own account':>12} {'processor time':>15}")
    print(f"{steps:>7} {len(tables):>9} {1000 * usual:>9.3f} ms {sampler.cost:>12.2%} {more / spent:>15.2%}")
    for one in tables[-1:]:
        parts = {"input": one.input_s, "host": one.host_s, "kernels": one.kernels_s}
        shown = ", ".join(f"{name} {value / one.step_s:.0%}" for name, value in parts.items())
        print(f"the last: a step of {1000 * one.step_s:.2f} ms is {shown}; most in {one.operators[0].name}")


def _sampled(sampler: Any, step: Callable[[], None], number: int) -> tuple[float, Any]:
    started = time.process_time()
    sampler.before_step()
    step()
    table = sampler.after_step(number, checkpoint_s=0.0)
    return time.process_time() - started, table


def _cpu_s(step: Callable[[], None]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _trainer(width: int, depth: int, *, watched: bool = False) -> Callable[[], None]:
    """One step of training a network of its own, with the watch of an elastic loop around it or without."""
    import torch
    from torch import nn

    from penstock.runtime.watch.loss_watch import LossWatch
    from penstock.runtime.watch.step_clock import StepClock

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
    model = nn.Sequential(*layers, nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(4 * _BATCH, width)
    clock, losses, number = StepClock(torch.device("cpu")), LossWatch(), 0
    if watched:
        clock.watch(model)

    def step() -> None:
        nonlocal number
        if watched:
            clock.begin(_BATCH)
        with clock.fetching() if watched else nullcontext():
            batch = data[torch.randint(0, len(data), (_BATCH,))]
        loss = model(batch).pow(2).mean()
        loss.backward()
        if watched:
            clock.exchanged(2)
        optimizer.step()
        optimizer.zero_grad()
        value = float(loss.detach())
        if watched:
            losses.note(number, value)
            clock.take(number)
        number += 1

    return step


if __name__ == "__main__":
    main()
