"""The batch jobs of one run: submitted one for each worker, watched through the shared queue, cancelled one by one.

A submission whose answer was lost may have happened: before it is tried again, the queue is asked for its name. Signals
go to the worker host alone (``--batch``), for Slurm would send them to the worker as well.
"""

import asyncio
import logging
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.ownership import hand_over, let_through
from penstock.backends.agent.parts import HOST_COMMAND, Part, PartEnd, PartFate, PartListener, PartRun
from penstock.backends.slurm.commands import SlurmCommands, SlurmError
from penstock.backends.slurm.node_requests import NodeRequests
from penstock.backends.slurm.queue import EVERY_S, BatchJob, BatchName, BatchQueue, queue_file
from penstock.backends.slurm.settings import SlurmSettings
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)

AGAIN_S = 2.0
"""How long to wait before a controller that did not answer is asked again."""
PURGED_S = 30.0
"""A job that the queue has not shown for so long is not there any more."""
_LEAVE_S = 3.0
_FATES = {
    "TIMEOUT": PartFate.TIME_LIMIT, "DEADLINE": PartFate.TIME_LIMIT, "NODE_FAIL": PartFate.NODE_LOST,
    "BOOT_FAIL": PartFate.NODE_LOST, "OUT_OF_MEMORY": PartFate.OUT_OF_MEMORY, "PREEMPTED": PartFate.EVICTED,
    "CANCELLED": PartFate.DELETED, "REVOKED": PartFate.DELETED,
}  # fmt: skip


@dataclass(slots=True)
class _Batch:
    name: BatchName
    id: str
    seen_at: float
    ended: bool = False


class SlurmParts:
    """A :class:`~penstock.backends.agent.parts.PartLauncher` on Slurm.

    Its settings are those of :class:`~penstock.backends.slurm.settings.SlurmSettings`, and ``state_dir``, where the
    queue and what nodes look like are kept for all runs.
    """

    def __init__(self, run: PartRun, listener: PartListener) -> None:
        given = dict(run.settings)
        state = Path(given.pop("state_dir"))
        self._requests = NodeRequests(state)
        self._settings = SlurmSettings(**given)
        self._run = run
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._commands = SlurmCommands(self._settings.commands)
        self._queue = BatchQueue(queue_file(state), self._commands, self._settings.partition)
        self._folder = run.directory / "parts"
        self._batches: dict[str, _Batch] = {}
        self._dropped: set[str] = set()
        self._tasks = BackgroundTasks()
        self._watching = False

    async def clear(self) -> None:
        while not self._run.is_new and (left := await self._left()):
            await self._cancel(job.id for job in left)
            await asyncio.sleep(EVERY_S)

    async def create(self, part: Part) -> None:
        if not self._watching:
            self._watching = True
            self._tasks.start(self._look_for_ever())
        name = BatchName(run_id=part.run_id, part=part.name, slot=part.worker.slot)
        while part.name not in self._batches and part.name not in self._dropped:
            try:
                job_id = await self._found(name) or await self._submitted(part, name)
            except SlurmError as error:
                if not error.passing:
                    self._listener.on_part_ended(part.name, PartEnd(fate=PartFate.REFUSED, words=str(error)))
                    return
                self._listener.on_part_waiting(part.name, str(error))
                await asyncio.sleep(AGAIN_S)
            else:
                self._batches[part.name] = _Batch(name, job_id, self._loop.time())
                self._listener.on_part_created(part.name, f"Slurm job {job_id}")
                if part.name in self._dropped:
                    await self._cancel([job_id])

    async def delete(self, name: str, grace_s: float) -> None:
        self._dropped.add(name)
        batch = self._batches.get(name)
        if batch is None or batch.ended:
            return
        if grace_s > 0:
            with suppress(SlurmError):
                await self._commands.call("scancel", "--batch", "--signal=TERM", batch.id)
            self._tasks.start(self._cancel_later(batch, grace_s))
        else:
            await self._cancel([batch.id])

    async def close(self) -> None:
        """Hosts have been told to leave, and most are gone by now: only the others are cancelled."""
        self._dropped.update(self._batches)
        until = self._loop.time() + _LEAVE_S
        while left := await self._left():
            if self._loop.time() > until:
                await self._cancel(job.id for job in left)
            await asyncio.sleep(EVERY_S / 4)
        self._tasks.cancel()

    # --- asking Slurm -------------------------------------------------------------------------------------------------

    async def _submitted(self, part: Part, name: BatchName) -> str:
        let_through(self._folder, self._run.user)
        secret_file = self._folder / f"{part.name}.secret"
        write_atomically(secret_file, part.secret, mode=0o400)
        hand_over(secret_file, self._run.user)
        environment = {**part.host_environment(), "PENSTOCK_SECRET_FILE": str(secret_file)}
        printed = await self._commands.call(
            "sbatch", *self._options(part, name), text=batch_script(environment)
        )  # fmt: skip
        return printed.strip().partition(";")[0]

    def _options(self, part: Part, name: BatchName) -> list[str]:
        settings = self._settings
        account = settings.account_of(part.launch.tenant)
        given = {
            "partition": settings.partition, "account": account, "reservation": settings.reservation,
            "qos": settings.qos, "time": settings.time, "uid": self._run.user.name if self._run.user else "",
        }  # fmt: skip
        return [
            "--parsable", "--no-requeue", "--export=ALL", "--chdir=/", "--open-mode=append", f"--job-name={name}",
            f"--output={self._folder / part.name}.log",
            *self._requests.of(part.worker.node, device=part.worker.has_device),
            *(f"--{option}={value}" for option, value in given.items() if value),
        ]  # fmt: skip

    async def _found(self, name: BatchName) -> str:
        """The id of a job that was submitted although nobody was told."""
        jobs = await self._jobs(EVERY_S)
        return next((job.id for job in jobs.values() if job.name == name and not job.over), "")

    async def _jobs(self, max_age_s: float) -> dict[str, BatchJob]:
        return await asyncio.to_thread(self._queue.jobs, max_age_s)

    async def _left(self) -> list[BatchJob]:
        """What of the run is in the queue; asked until there is an answer."""
        while True:
            try:
                return await asyncio.to_thread(self._queue.of_run, self._run.run_id, EVERY_S / 4)
            except SlurmError as error:
                _log.warning("%s", error)
                await asyncio.sleep(AGAIN_S)

    async def _cancel(self, ids: Any) -> None:
        with suppress(SlurmError):  # gone already, or looked for again
            await self._commands.call("scancel", *ids)

    async def _cancel_later(self, batch: _Batch, grace_s: float) -> None:
        await asyncio.sleep(grace_s)
        if not batch.ended:
            await self._cancel([batch.id])

    # --- what becomes of them -----------------------------------------------------------------------------------------

    async def _look_for_ever(self) -> None:
        while True:
            try:
                self._compare(await self._jobs(EVERY_S))
            except SlurmError as error:
                _log.warning("%s", error)
            await asyncio.sleep(EVERY_S)

    def _compare(self, jobs: Mapping[str, BatchJob]) -> None:
        now = self._loop.time()
        for part, batch in self._batches.items():
            job = jobs.get(batch.id)
            if batch.ended:
                continue
            if job is not None and job.name != batch.name:
                job = None  # a controller that was killed gives numbers out again
            if job is None and now - batch.seen_at > PURGED_S:
                batch.ended = True
                words = f"Slurm does not know job {batch.id} any more"
                self._listener.on_part_ended(part, PartEnd(fate=PartFate.DELETED, words=words))
            elif job is not None:
                batch.seen_at = now
                self._tell(part, batch, job)

    def _tell(self, part: str, batch: _Batch, job: BatchJob) -> None:
        if job.over:
            batch.ended = True
            words = f"Slurm job {job.id} is {job.state} ({job.reason})"
            self._listener.on_part_ended(part, PartEnd(fate=_FATES.get(job.state, PartFate.EXITED), words=words))
        elif job.waits:
            self._listener.on_part_waiting(part, f"Slurm job {job.id} is {job.state} ({job.reason})")


def batch_script(environment: Mapping[str, str]) -> str:
    """What runs in a part; the shell becomes the host, so that signals reach it."""
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environment.items()))
    return f"#!/bin/sh\n{variables}exec {shlex.join(HOST_COMMAND)}\n"
