"""``penstock hotspots``: where the time of a job's steps goes."""

from typing import TYPE_CHECKING

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import bar

if TYPE_CHECKING:
    from penstock.wire import HotspotsView, WorkerTimesView

_PARTS = ("input", "host", "kernels", "communication", "checkpoint")


def hotspots(job: JobArgument, as_json: JsonOption = False) -> None:
    """Where the time of a job's steps goes: input, host, kernels, communication, checkpoints; and who is slow."""
    with connect() as client:
        found = client.hotspots(job)
    if as_json:
        print_json(found)
        return
    if found.profile is not None:
        _print_profile(found.profile)
    if found.workers:
        _print_workers(found.workers)
    if found.stacks:
        out.print(f"stacks of its workers: {found.stacks}", soft_wrap=True)
    if found.note:
        say(found.note)


def _print_profile(profile: "HotspotsView") -> None:
    out.print(
        f"a step takes {_seconds(profile.step_s)} on {profile.device}"
        f" (steps {profile.step} to {profile.step + profile.steps - 1}; profiles cost {profile.cost:.2%} of the run)",
        soft_wrap=True,
    )
    table = plain_table("part", "a step", "share")
    for part in _PARTS:
        seconds = getattr(profile, f"{part}_s")
        share = seconds / profile.step_s if profile.step_s else 0.0
        table.add_row(part, _seconds(seconds), bar(share))
    out.print(table)
    operators = plain_table("operator or kernel", "a step", "calls")
    for operator in profile.operators:
        operators.add_row(operator.name, _seconds(operator.seconds), f"{operator.calls:g}")
    out.print(operators)


def _print_workers(workers: "list[WorkerTimesView]") -> None:
    table = plain_table("worker", "on", "a step", "compute", "input", "waits", "")
    for one in workers:
        slower = f"{one.slower:.1f}x slower than the others" if one.slower else ""
        times = (one.step_s, one.compute_s, one.input_s, one.wait_s)
        table.add_row(one.worker, one.place, *map(_seconds, times), slower)
    out.print(table)


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1.0 else f"{1000 * value:.3g} ms"
