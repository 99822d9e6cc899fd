"""The first thing a newcomer runs: a real platform on this machine, real training jobs, and what became of them.

A job at best effort has four CPU slots; one with a deadline makes it shrink; one asks for the impossible and gets a
counter-offer; a worker is killed and the job goes on. About a minute; nothing is left running.
"""

import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from rich.live import Live

from penstock.cli.platform.top import picture
from penstock.cli.submission.example import EXAMPLES
from penstock.cli.terminal.console import err, out, plain_table, say
from penstock.cli.terminal.format import clock, quote_lines
from penstock.cli.terminal.this_command import as_typed
from penstock.client import Client, DataDir, ensure_server
from penstock.wire import OVER, JobDetail, QuoteView

SLOTS = 4
STEPS = 2000
PATIENCE_S = 240.0


def main(directory: Path = Path("demo-output")) -> None:
    """Run the story and tell how it ended."""
    data = (directory / "platform").absolute()
    shutil.rmtree(directory, ignore_errors=True)
    client = ensure_server(data, say=say, options=["--slots", str(SLOTS)])
    try:
        jobs, refusal = _play(client, data)
        _summary(client, jobs, refusal, data)
    finally:
        _stop_server(data)


def _play(client: Client, data: Path) -> tuple[list[str], QuoteView]:
    first = picture(client) if err.is_terminal else None
    with Live(first, console=err, auto_refresh=False, transient=first is None) as live:

        def wait(what: str, done: Callable[[], bool]) -> None:
            deadline = time.monotonic() + PATIENCE_S
            while not done():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"waited {PATIENCE_S:.0f} s for {what}")
                if err.is_terminal:
                    live.update(picture(client), refresh=True)
                time.sleep(0.5)

        gpt = _submit(client, "gpt", ["--steps", "{steps}"], work=f"{STEPS} steps", devices=f"2..{SLOTS}")
        wait("the GPT to train", lambda: _step(client, gpt) >= 60)
        say(f"{gpt} trains on {_width(client, gpt)} workers; a job with a deadline comes")
        cnn = _submit(client, "cnn", ["--epochs", "4"], work="96 steps", deadline="120s")
        wait("the CNN to train", lambda: _step(client, cnn) >= 20)
        say(f"{gpt} made room: {_width(client, gpt)} workers, the deadline job has {_width(client, cnn)}")
        wait("the CNN to finish", lambda: client.job(cnn).state in OVER)
        impossible = client.quote(_spec("gpt", ["--steps", "{steps}"], work="1_000_000 steps", deadline="60s"))
        say(f"a million steps of the GPT within a minute? {impossible.verdict}: {impossible.reason}")
        alone = _step(client, gpt) + 40
        wait("the GPT to train alone", lambda: _step(client, gpt) > alone)
        before = _step(client, gpt)
        say(f"killing one of the {_width(client, gpt)} workers of {gpt} at step {before}")
        _kill_a_worker(data / "runs" / str(client.job(gpt).run_id))
        wait("the GPT to go on", lambda: client.job(gpt).state in OVER or _step(client, gpt) > before + 20)
        wait("everything to finish", lambda: all(client.job(job).state in OVER for job in (gpt, cnn)))
    return [gpt, cnn], impossible


def _spec(example: str, arguments: list[str], **keys: Any) -> dict[str, Any]:
    goal = {} if "deadline" in keys else {"best_effort": True}
    return {
        "name": example, "script": str(EXAMPLES / f"{example}.py"), "args": arguments,
        "environment": {"working_dir": str(EXAMPLES)}, **goal, **keys,
    }  # fmt: skip


def _submit(client: Client, example: str, arguments: list[str], **keys: Any) -> str:
    return client.submit(_spec(example, arguments, **keys)).job.id


def _step(client: Client, job: str) -> int:
    progress = client.job(job).progress
    return (progress.step or 0) if progress is not None else 0


def _width(client: Client, job: str) -> int:
    return len(client.job(job).devices)


def _kill_a_worker(run_dir: Path) -> None:
    """The worker that was started last of those still there, without warning."""
    reports = [json.loads(line) for line in (run_dir / "reports.jsonl").read_text().splitlines()]
    started = [report["pid"] for report in reports if report["kind"] == "worker_started"]
    os.kill([pid for pid in started if _is_running(pid)][-1], signal.SIGKILL)


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _summary(client: Client, jobs: list[str], refusal: QuoteView, data: Path) -> None:
    table = plain_table("job", "state", "promised by", "finished", "worlds", "last loss")
    for detail in (client.job(job) for job in jobs):
        table.add_row(
            f"{detail.id} {detail.name}", detail.state, _promise(detail), clock(detail.ended_at),
            str(len(detail.history)), _loss(detail),
        )  # fmt: skip
    out.print(table)
    out.print()
    out.print(_pauses(client, jobs), soft_wrap=True)
    out.print(f"A million steps within a minute? {'; '.join(quote_lines(refusal))}.", soft_wrap=True)
    out.print(f"Logs of every worker: {data / 'runs'}. Why a job stood where it stood:", soft_wrap=True)
    for note in client.why(jobs[0]).entries[-8:]:
        out.print(f"  {clock(note.at)}  {note.text}", soft_wrap=True)
    out.print(f"Try it yourself: {try_it()}", soft_wrap=True)


def try_it() -> str:
    """A command that works in the shell that ran this."""
    script = os.path.relpath(EXAMPLES / "gpt.py")
    return as_typed(f"penstock run --work '300 steps' --deadline 5m -- {shlex.quote(script)} --steps 300")


def _pauses(client: Client, jobs: list[str]) -> str:
    """How long training stood still when the number of workers changed."""
    events = [event for job in jobs for event in client.events(job, limit=1000).events]
    pauses = [event.payload["pause_s"] for event in events if event.payload.get("pause_s") is not None]
    if not pauses:
        return "No job was resized."
    return f"{len(pauses)} resizes in place; training stood still for {', '.join(f'{p:.2f}' for p in pauses)} s."


def _promise(detail: JobDetail) -> str:
    return clock(detail.quote.finish_at) if detail.quote is not None and detail.quote.finish_at else "nothing promised"


def _loss(detail: JobDetail) -> str:
    return f"{detail.progress.loss:.4f}" if detail.progress is not None and detail.progress.loss is not None else "-"


def _stop_server(data: Path) -> None:
    address = DataDir(data).address()
    if address is not None:
        os.kill(address.pid, signal.SIGTERM)


if __name__ == "__main__":
    main()
