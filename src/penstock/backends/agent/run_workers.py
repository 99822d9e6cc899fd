"""The workers of one run, wherever they live: what an agent asks of its processes or of its parts in an engine."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.backends.agent.environment import MeetingPoint, free_port, worker_environment
from penstock.backends.agent.node_gate import UNFIT_CODE, NodeGate
from penstock.backends.agent.outputs import RunLog
from penstock.backends.agent.ownership import hand_over
from penstock.backends.agent.plan_file import write_plan
from penstock.backends.agent.processes import OURSELVES, Identity
from penstock.backends.agent.side_processes import NOT_STARTED, SideEnd
from penstock.backends.agent.spawner import DROPPED, Listener, Spawner
from penstock.backends.agent.states import Exit, WorkerGroup
from penstock.backends.agent.usage import UsageMeter, held_by
from penstock.core import AgentAddress, FailureReason, Launch, ModuleCall, Usage, Worker

LOOPBACK = "127.0.0.1"


class RunWorkers(Protocol):
    """Starts and ends workers; whoever asked hears ``on_started`` and then exactly one ``on_exited`` of each."""

    def listen(self, address: AgentAddress) -> None:
        """Workers reach the agent there; nothing is started before this is known."""
        ...

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None: ...

    def set_rank(self, worker_id: str, rank: int) -> None:
        """Later lines of a worker carry its new rank."""
        ...

    def terminate(self, worker_id: str) -> None: ...

    def kill(self, worker_id: str) -> None: ...

    def dump_stacks(self, worker_id: str) -> None:
        """Have a worker that uses our library write its stacks to its output, where a signal reaches it."""
        ...

    def sweep(self) -> None:
        """End what workers left behind."""
        ...

    def reap(self) -> None:
        """A child of this process has ended."""
        ...

    def tick(self, returns: Callable[[Worker], bool]) -> None:
        """Time has passed; ``returns`` says of a worker that has ended whether it will be started again."""
        ...

    def waiting(self) -> str | None:
        """Why workers are not there yet, in the engine's words; None if nothing is waited for."""
        ...

    def usage(self) -> Usage:
        """What all of them use; totals are kept for later."""
        ...

    async def close(self) -> None:
        """The run is over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A worker that starts when its node has been checked."""

    group: WorkerGroup
    worker: Worker
    restarts: int


class ProcessWorkers:
    """Workers that are processes of this machine. ``report`` tells the server what checks of the machine found."""

    def __init__(
        self,
        directory: Path,
        launch: Launch,
        base_env: Mapping[str, str],
        output: RunLog,
        listener: Listener,
        *,
        identity: Identity = OURSELVES,
        secret_file: Path,
        plan_file: Path,
        usage_file: Path,
        report: Callable[..., None],
    ) -> None:
        self._launch = launch
        self._listener = listener
        self._base_env = base_env
        self._user = identity.user
        self._secret_file = secret_file
        self._plan_file = plan_file
        self._spawner = Spawner(directory, launch, base_env, output, listener, identity)
        self._meter = UsageMeter(os.getpid(), usage_file)
        self._environments: dict[str, Mapping[str, str]] = {}
        self._ports: dict[int, int] = {}
        self._address = AgentAddress()
        self._held: dict[str, _Held] = {}
        self._gate = NodeGate(launch, self, report=report, remark=output.remark)

    def listen(self, address: AgentAddress) -> None:
        self._address = address
        if address.path:
            hand_over(Path(address.path), self._user)

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None:
        """Start a worker, or hold it back until its node has been checked: with all others of its group."""
        held = _Held(group=group, worker=worker, restarts=restarts)
        if not worker.has_device or self._gate.lets(worker.node, group.size):
            self._start(held)
        else:
            self._held[worker.id] = held
            asyncio.get_running_loop().call_soon(self._start_held)

    def _start(self, held: _Held) -> None:
        group, worker = held.group, held.worker
        if worker.has_device:
            write_plan(self._plan_file, self._launch, group.size)
        if self._launch.plans and self._plan_file.exists():
            hand_over(self._plan_file, self._user)
        self._environments[worker.id] = dict(worker.device_env)
        self._spawner.spawn(worker.id, group.rank_of(worker.id), self._environment(held), worker.command)

    def _environment(self, held: _Held) -> dict[str, str]:
        generation = held.group.generation
        port = self._ports[generation] = self._ports.get(generation) or free_port()
        meeting = MeetingPoint(agent=self._address, secret_file=self._secret_file, master=LOOPBACK, port=port)
        return worker_environment(
            self._base_env, held.group, held.worker, meeting=meeting, restart_count=self._launch.attempt + held.restarts
        )

    # --- checks before workers start ----------------------------------------------------------------------------------

    def _start_held(self) -> None:
        """One worker of a node sees all devices of its group there, and is the place where the node is checked."""
        unchecked: dict[str, str] = {}
        for worker_id, held in list(self._held.items()):
            node = held.worker.node
            if self._gate.lets(node, held.group.size):
                self._start(self._held.pop(worker_id))
            elif reason := self._gate.refusal(node):
                self._drop(worker_id, Exit(UNFIT_CODE, None, (f"penstock: {reason}",), FailureReason.PREFLIGHT))
            else:
                unchecked.setdefault(node, worker_id)
        if unchecked:
            self._gate.check({worker_id: node for node, worker_id in unchecked.items()}, self._start_held)

    def _drop(self, worker_id: str, how: Exit) -> None:
        """End a worker that has not started."""
        del self._held[worker_id]
        self._listener.on_exited(worker_id, how)

    async def run_beside(self, call: ModuleCall) -> SideEnd:
        held = self._held.get(call.node)
        if held is None:
            return SideEnd(code=NOT_STARTED, output="the worker of this place is not wanted any more")
        return await self._spawner.run_beside(call, {**self._environment(held), "PENSTOCK_NODE": held.worker.node})

    def address_of(self, place: str) -> str:  # noqa: ARG002
        return LOOPBACK

    def set_rank(self, worker_id: str, rank: int) -> None:
        self._spawner.set_rank(worker_id, rank)

    def terminate(self, worker_id: str) -> None:
        if worker_id in self._held:
            self._drop(worker_id, Exit(*DROPPED))
        else:
            self._spawner.terminate(worker_id)

    def kill(self, worker_id: str) -> None:
        if worker_id in self._held:
            self._drop(worker_id, Exit(*DROPPED))
        else:
            self._spawner.kill(worker_id)

    def dump_stacks(self, worker_id: str) -> None:
        self._spawner.dump_stacks(worker_id)

    def sweep(self) -> None:
        self._spawner.sweep()

    def reap(self) -> None:
        self._spawner.reap()

    def tick(self, returns: Callable[[Worker], bool]) -> None:
        """Nothing is held for a worker that has ended."""

    def waiting(self) -> str | None:
        return self._gate.words

    def usage(self) -> Usage:
        """Devices of a worker that has ended count up to the next sample, which its end brings about."""
        used = self._meter.sample(held_by(self._environments.values()))
        self._meter.save()
        limits = self._spawner.limits
        used = replace(
            used, memory_limit_bytes=limits.memory_bytes, memory_peak_bytes=limits.memory_peak_bytes,
            unlimited=limits.complaint,
        )  # fmt: skip
        self._environments = {one: self._environments[one] for one in self._spawner.worker_ids}
        return used

    async def close(self) -> None:
        self._gate.close()
        self._spawner.close()
        self._spawner.sweep()
