"""Workers in parts of an engine: places are asked for, hosts come from there by themselves, and workers start in them.

A run begins when all hosts of its first world have come, so no device computes while others are still in a queue; who
joins later starts as soon as its own host is there. A part outlives its worker for as long as a restart needs the same
place again. Whether a silent host is dead nobody can know: one that has hung up and does not come back is; one that is
only silent is given up at once where the others can go on without it, and else when its worker must have ended by
itself. A host that comes back after that is turned away and ends its worker.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.environment import MeetingPoint, worker_environment
from penstock.backends.agent.host_calls import HostCalls
from penstock.backends.agent.host_line import AGENT_SILENT_S
from penstock.backends.agent.hosted_part import HostedPart
from penstock.backends.agent.node_gate import UNFIT_CODE, NodeGate
from penstock.backends.agent.outputs import RunLog
from penstock.backends.agent.part_messages import (
    HOST_MESSAGES,
    Acknowledged,
    EndOrder,
    FileProgress,
    HostLeaving,
    HostMessage,
    HostReady,
    HostUsage,
    ModuleEnded,
    OutputBatch,
    SignalOrder,
    StartOrder,
    WorkerBegan,
    WorkerEnded,
)
from penstock.backends.agent.part_usage import PartUsage
from penstock.backends.agent.parts import Part, PartEnd, PartFate, PartLauncher
from penstock.backends.agent.side_processes import NOT_STARTED, SideEnd
from penstock.backends.agent.spawner import DROPPED, NOT_EXECUTABLE, Listener
from penstock.backends.agent.states import Exit, WorkerGroup
from penstock.backends.agent.worker_host import AWAY_S
from penstock.core import (
    AgentAddress,
    FailureReason,
    Hello,
    Launch,
    ModuleCall,
    ProtocolError,
    ReportKind,
    Usage,
    Worker,
)

_log = logging.getLogger(__name__)

RETURN_S = 1.0
"""How long a host that has hung up may take to come back."""
SILENT_S = AGENT_SILENT_S
"""A line on which nothing was heard for so long is broken; hosts speak every two seconds."""
FENCE_S = AWAY_S + 10.0
"""After so long without its agent nothing of a worker is left, whatever became of its host."""
KILLED = 137
_CLOSE_S = 20.0
_NAME = re.compile(r"[^a-z0-9]+")


class HostedListener(Listener, Protocol):
    """Who wants to know about workers that live in parts."""

    def on_leaving(self, worker_id: str, within_s: float, words: str) -> None:
        """The place of a worker is being taken away."""
        ...

    def on_file_progress(self, said: dict[str, object]) -> None: ...

    def report(self, kind: ReportKind, **said: Any) -> None:
        """Something that the server has to know."""
        ...

    def can_spare(self, worker_id: str) -> bool:
        """Whether the others would go on without a worker."""
        ...

    def is_cut_off(self, worker_id: str) -> bool:
        """Whether a worker had a line of its own to the agent and has it no more."""
        ...


class PartWorkers:
    """The :class:`~penstock.backends.agent.run_workers.RunWorkers` of one run in an engine.

    ``variables`` and ``files`` are what secrets become. ``start_limit_s``: how long the engine may take to have a host
    come; None where its queue may take as long as it likes.
    """

    def __init__(
        self,
        launch: Launch,
        output: RunLog,
        listener: HostedListener,
        *,
        secret: str,
        variables: Mapping[str, str],
        files: Mapping[str, str],
        start_limit_s: float | None,
        usage_file: Path,
    ) -> None:
        self._launch = launch
        self._output = output
        self._listener = listener
        self._secret = secret
        self._variables = dict(variables)
        self._files = tuple(sorted(files.items()))
        self._start_limit_s = start_limit_s
        self._usage = PartUsage(usage_file)
        self._loop = asyncio.get_running_loop()
        self._launcher: PartLauncher | None = None
        self._address = AgentAddress()
        self._parts: dict[str, HostedPart] = {}
        self._numbers = count(1)
        self._tasks = BackgroundTasks()
        self._cleared: asyncio.Task[None] | None = None
        self._calls = HostCalls()
        self._gate = NodeGate(launch, self, report=listener.report, remark=output.remark)

    def use(self, launcher: PartLauncher) -> None:
        """Whom to ask for parts."""
        self._launcher = launcher

    # --- what the agent asks ------------------------------------------------------------------------------------------

    def listen(self, address: AgentAddress) -> None:
        self._address = address
        self._cleared = self._loop.create_task(self._engine.clear())

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None:
        """Ask for a place, or take the one that is still held, and start when all is there."""
        part = self._held(worker) or self._asked(worker)
        alone = replace(group, workers=tuple(replace(one, node=one.id) for one in group.workers))
        own = alone.workers[group.rank_of(worker.id)]
        meeting = MeetingPoint(agent=self._address, secret_file=Path(), master="", port=0)
        part.variables = worker_environment(
            self._variables, alone, own, meeting=meeting, restart_count=self._launch.attempt + restarts
        )
        plans = tuple(plan for plan in self._launch.plans if plan.devices == group.size)
        part.launch = replace(self._launch, plans=plans, workers=(), cpu_worker=None if worker.has_device else worker)
        part.gang = group.ids[:1] if group.in_place else group.ids
        part.master, part.width = group.ids[0], group.size
        part.log = self._output.open(worker.id, group.rank_of(worker.id))
        part.pending, part.signal, part.kills = True, None, 0
        self._start_whoever_can()

    def set_rank(self, worker_id: str, rank: int) -> None:
        if (part := self._parts.get(worker_id)) and part.log:
            part.log.rank = rank

    def terminate(self, worker_id: str) -> None:
        self._end(worker_id, kill=False)

    def kill(self, worker_id: str) -> None:
        """End a worker; asked again, or without a line to its host, by way of the engine."""
        part = self._parts.get(worker_id)
        if part is None:
            return
        part.kills += 1
        if part.running and (part.kills > 1 or not part.connected):
            self._tasks.start(self._engine.delete(part.name, 0.0))
        self._end(worker_id, kill=True)

    def dump_stacks(self, worker_id: str) -> None:
        """Only what workers answer over their own lines is seen: signals do not travel."""

    def sweep(self) -> None:
        """Hosts do that, each for its own worker."""

    def reap(self) -> None:
        """No worker is a child of the agent."""

    def tick(self, returns: Callable[[Worker], bool]) -> None:
        now = self._loop.time()
        for part in list(self._parts.values()):
            if part.idle and not returns(part.worker):
                self._release(part)
            elif part.connected and now - part.heard_at > SILENT_S:
                self._hang_up(part, now)
            elif (why := self._lost(part, now)) is not None:
                self._lose(part, why)

    def waiting(self) -> str | None:
        """Words of whoever waits, the first that has any."""
        absent = [part for part in self._parts.values() if part.pending]
        if not absent:
            return None
        if self._cleared is not None and not self._cleared.done():
            return "the engine was asked for what an earlier agent may have left, and has not answered yet"
        if self._gate.words:
            return self._gate.words
        return next((f"{part.worker.id}: {part.words}" for part in absent if part.words), "")

    def usage(self) -> Usage:
        return self._usage.sum(part.usage for part in self._parts.values())

    async def close(self) -> None:
        self._gate.close()
        for part in self._parts.values():
            part.send(EndOrder())
        try:
            await asyncio.wait_for(self._engine.close(), _CLOSE_S)
        except TimeoutError:
            _log.warning("the engine has not ended all parts of the run within %g s", _CLOSE_S)
        self._tasks.cancel()
        if self._cleared is not None:
            self._cleared.cancel()

    # --- what the engine tells ----------------------------------------------------------------------------------------

    def on_part_created(self, name: str, engine_id: str) -> None:
        if part := self._named(name):
            _log.info("part %s of worker %s is %s", name, part.worker.id, engine_id)

    def on_part_waiting(self, name: str, words: str) -> None:
        part = self._named(name)
        if part is not None and part.words != words:
            part.words = words
            self._output.remark(f"worker {part.worker.id} waits for its place on {part.worker.node}: {words}")

    def on_part_ended(self, name: str, end: PartEnd) -> None:
        """What its host still had to say is on the way, and gets a moment to arrive."""
        if part := self._named(name):
            part.end = end
            if part.broken_at is None:
                part.broken_at = self._loop.time()

    # --- what hosts say -----------------------------------------------------------------------------------------------

    async def serve(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listen to one host until its line breaks; one whose part was given up is refused."""
        part = self._named(hello.part)
        if part is None:
            raise ProtocolError(f"part {hello.part} was given up, or is none of this run")
        part.attach(writer, self._loop.time())
        hung_up = True
        try:
            while line := await reader.readline():
                part.heard_at = self._loop.time()
                self._understand(part, line)
                part.send(Acknowledged(seq=part.seq))
        except TimeoutError:
            hung_up = False
        finally:
            if part.writer is writer:
                part.detach(self._loop.time(), hung_up)

    def _understand(self, part: HostedPart, line: bytes) -> None:
        try:
            self._take(part, HOST_MESSAGES.decode(line))
        except ProtocolError as error:
            _log.warning("ignored what the host of part %s said: %s", part.name, error)

    def _take(self, part: HostedPart, message: HostMessage) -> None:
        match message:
            case HostReady():
                part.address, part.port = message.address, message.port
                self._repeat_orders(part, message.start)
                self._start_whoever_can()
            case HostUsage():
                part.usage = message.usage
            case FileProgress():
                self._listener.on_file_progress(
                    {name: getattr(message, name) for name in message.__slots__ if getattr(message, name) is not None}
                )
            case _ if message.seq > part.seq:
                part.seq = message.seq
                self._hear(part, message)

    def _hear(
        self, part: HostedPart, message: WorkerBegan | OutputBatch | WorkerEnded | ModuleEnded | HostLeaving
    ) -> None:
        match message:
            case WorkerBegan() if part.running:
                self._listener.on_started(part.worker.id, message.pid)
            case OutputBatch() if part.log:
                if message.lost:
                    self._output.remark(f"{message.lost} lines of worker {part.worker.id} were lost")
                for line in message.lines:
                    part.log.take(line.stream, [line.text.encode(errors="surrogateescape")])
            case WorkerEnded() if part.running and message.start == part.start:
                self._ended(part, Exit(message.code, message.signal, message.tail))
            case ModuleEnded():
                self._calls.ended(part, message)
            case HostLeaving():
                self._output.remark(f"the place of worker {part.worker.id} is being taken away: {message.words}")
                self._listener.on_leaving(part.worker.id, message.within_s, message.words)

    # --- checks before workers start ----------------------------------------------------------------------------------

    async def run_beside(self, call: ModuleCall) -> SideEnd:
        part = self._parts.get(call.node)
        if part is None or not part.pending:
            return SideEnd(code=NOT_STARTED, output="the worker of this place is not wanted any more")
        return await self._calls.run(part, call)

    def address_of(self, place: str) -> str:
        return self._parts[place].address

    # --- starting and ending ------------------------------------------------------------------------------------------

    @property
    def _engine(self) -> PartLauncher:
        assert self._launcher is not None
        return self._launcher

    def _named(self, name: str) -> HostedPart | None:
        return next((part for part in self._parts.values() if part.name == name), None)

    def _held(self, worker: Worker) -> HostedPart | None:
        """The place a worker had before, if it is the same and still there."""
        part = self._parts.get(worker.id)
        if part is None or not part.idle:
            return None
        if part.worker.place == worker.place and part.end is None and part.connected:
            part.worker = worker
            return part
        self._release(part)
        return None

    def _asked(self, worker: Worker) -> HostedPart:
        name = f"{_NAME.sub('-', worker.id.lower()).strip('-') or 'w'}-{next(self._numbers)}"
        part = self._parts[worker.id] = HostedPart(name=name, worker=worker, asked_at=self._loop.time())
        wanted = Part(
            name=name, worker=worker, launch=self._launch, agent=self._address, secret=self._secret
        )  # fmt: skip
        self._tasks.start(self._created(wanted))
        return part

    async def _created(self, part: Part) -> None:
        if self._cleared is not None:
            await asyncio.shield(self._cleared)
        if self._named(part.name) is not None:
            await self._engine.create(part)

    def _start_whoever_can(self) -> None:
        """Those whose others are there and whose nodes are fit; a node that nobody has checked yet is."""
        here = [part for part in self._parts.values() if part.pending and self._is_complete(part)]
        for part in here:
            if not part.worker.has_device:
                self._start(part)
            elif reason := self._gate.refusal(part.worker.node):
                self._ended(part, Exit(UNFIT_CODE, None, (f"penstock: {reason}",), FailureReason.PREFLIGHT))
            elif self._is_let_in(part):
                self._start(part)
        unchecked = {
            part.worker.id: part.worker.node
            for part in here
            if part.pending and not self._gate.lets(part.worker.node, part.width)
        }
        if unchecked:
            self._gate.check(unchecked, self._start_whoever_can)

    def _is_complete(self, part: HostedPart) -> bool:
        return part.connected and all(self._is_here(one) for one in part.gang)

    def _is_let_in(self, part: HostedPart) -> bool:
        """Whether nothing speaks against its node and those of its gang."""
        gang = (self._parts[one].worker.node for one in part.gang if one in self._parts)
        return all(self._gate.lets(node, part.width) for node in (part.worker.node, *gang))

    def _is_here(self, worker_id: str) -> bool:
        part = self._parts.get(worker_id)
        return part is not None and bool(part.address)

    def _start(self, part: HostedPart) -> None:
        assert part.launch is not None
        master = self._parts.get(part.master) or part
        variables = {**part.variables, "MASTER_ADDR": master.address, "MASTER_PORT": str(master.port)}
        part.start += 1
        part.pending, part.running, part.words = False, True, ""
        part.order = StartOrder(
            start=part.start, launch=part.launch, variables=tuple(sorted(variables.items())), files=self._files
        )
        part.send(part.order)

    def _repeat_orders(self, part: HostedPart, carried_out: int) -> None:
        """Orders that were given while the line was down, or were lost with it."""
        if part.running and part.order is not None and carried_out < part.start:
            part.send(part.order)
        if part.running and part.signal is not None:
            part.send(part.signal)
        self._calls.repeat(part)

    def _end(self, worker_id: str, kill: bool) -> None:
        part = self._parts.get(worker_id)
        if part is None or part.idle:
            return
        if part.pending:
            self._ended(part, Exit(*DROPPED))
        else:
            part.signal = SignalOrder(start=part.start, kill=kill)
            part.send(part.signal)

    def _ended(self, part: HostedPart, how: Exit) -> None:
        self._calls.give_up(part, "the worker of this place has ended")
        tail = (*part.log.tail(), *how.tail) if part.log else how.tail
        if part.log is not None:
            part.log.close()
        part.log, part.pending, part.running, part.order = None, False, False, None
        self._listener.on_exited(part.worker.id, replace(how, tail=tail))

    def _release(self, part: HostedPart) -> None:
        """Give a place back whose worker has ended."""
        if self._parts.get(part.worker.id) is part:
            del self._parts[part.worker.id]
        self._usage.add_ended(part.usage)
        part.send(EndOrder())
        self._tasks.start(self._engine.delete(part.name, 0.0 if part.end else RETURN_S))

    # --- losing parts -------------------------------------------------------------------------------------------------

    def _hang_up(self, part: HostedPart, now: float) -> None:
        if part.writer is not None:
            part.writer.transport.abort()
        part.detach(now, hung_up=False)

    def _lost(self, part: HostedPart, now: float) -> PartEnd | None:
        """What became of a part whose worker is not known to have ended; nothing while it may still come or answer."""
        if part.pending and not part.connected and part.end is None:
            late = self._start_limit_s is not None and now - part.asked_at > self._start_limit_s
            return PartEnd(fate=PartFate.REFUSED, words=part.words or "its host did not come in time") if late else None
        if part.broken_at is None or (part.connected and now - part.broken_at < RETURN_S):
            return None
        if part.end is not None:
            return part.end
        if part.hung_up:
            gone = now - part.broken_at > RETURN_S or self._listener.is_cut_off(part.worker.id)
            return PartEnd(fate=PartFate.NODE_LOST, words="its host is gone") if gone else None
        given_up = self._listener.can_spare(part.worker.id) or now - part.heard_at > FENCE_S
        return PartEnd(fate=PartFate.NODE_LOST, words="its host does not answer") if given_up else None

    def _lose(self, part: HostedPart, end: PartEnd) -> None:
        words = f"worker {part.worker.id} has lost its place on {part.worker.node} ({end.fate}): {end.words}"
        self._output.remark(words)
        code = end.code or (NOT_EXECUTABLE if end.fate is PartFate.REFUSED else KILLED)
        lost = not part.idle
        del self._parts[part.worker.id]
        self._usage.add_ended(part.usage)
        self._tasks.start(self._engine.delete(part.name, 0.0))
        if part.writer is not None:
            part.writer.close()
        if lost:
            self._ended(part, Exit(code, 9 if code == KILLED else None, (f"penstock: {words}",), end.fate.value))
