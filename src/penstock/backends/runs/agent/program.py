"""The life of an agent's process: its session, its signals, the lock of its run, and what is left when it has ended."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.backends.agent import processes
from penstock.backends.agent.containers import remove_run
from penstock.backends.agent.namespaces import hide_other_processes
from penstock.backends.agent.ownership import let_through, own_directory
from penstock.backends.agent.run_limits import end_limited
from penstock.backends.agent.subreaper import run_below_subreaper
from penstock.backends.runs.agent.agent_options import AgentOptions, parse_command
from penstock.backends.runs.agent.run_agent import Agent
from penstock.backends.runs.rundir import RunDir, hold_lock
from penstock.core import Launch, is_url
from penstock.tools import acting_as


def main(argv: list[str] | None = None, secrets: Mapping[str, str] | None = None) -> int:
    command = parse_command(argv)
    given = json.loads(sys.stdin.read()) if command.reads_secrets else secrets or {}
    if command.detach and os.fork():
        os._exit(0)
    if command.detach:
        os.setsid()
    run_dir = RunDir(command.run_dir)
    if command.below_subreaper:
        return run_below_subreaper(lambda: _run(run_dir, command.agent, given), at_end=lambda: _clean_up(run_dir))
    return _run(run_dir, command.agent, given)


def _run(run_dir: RunDir, options: AgentOptions, secrets: Mapping[str, str]) -> int:
    for unheeded in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unheeded, _heed_not)
    lock = hold_lock(run_dir)
    if lock is None:
        return 0
    launch = run_dir.read_launch()
    if launch is None:
        sys.stderr.write(f"no launch.json in {run_dir.path}: nothing to run\n")
        return 2
    processes.become_subreaper()
    _prepare(run_dir, launch, options)
    asyncio.run(_supervise(run_dir, launch, options, secrets))
    return 0


def _prepare(run_dir: RunDir, launch: Launch, options: AgentOptions) -> None:
    """What workers may see, and the directories that are theirs."""
    user = options.identity.user
    if user is not None and not hide_other_processes():
        sys.stderr.write("workers see the machine's other processes: this kernel gives a run no view of its own\n")
    let_through(run_dir.path, user)
    own_directory(run_dir.job, user)
    run_dir.progress.unlink(missing_ok=True)
    if options.engine is None and not is_url(launch.checkpoint_dir):
        with suppress(OSError), acting_as(user):
            Path(launch.checkpoint_dir or run_dir.checkpoints).mkdir(parents=True, exist_ok=True)


def _clean_up(run_dir: RunDir) -> None:
    """After an agent that may have been killed: containers are nobody's children, and its groups nobody else's."""
    launch = run_dir.read_launch()
    if launch is None:
        return
    end_limited(launch, run_dir.path)
    if launch.container is not None and launch.container.runtime:
        remove_run(launch.container.runtime, launch.run_id)


def _heed_not(_number: int, _frame: object) -> None:
    """A handler, because workers would inherit a signal that is ignored."""


async def _supervise(run_dir: RunDir, launch: Launch, options: AgentOptions, secrets: Mapping[str, str]) -> None:
    await Agent(run_dir, launch, options, secrets).run()
