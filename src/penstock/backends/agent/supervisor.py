"""Decides what happens to the processes of one run: events in, calls on its host out.

It holds no process, no socket and no clock (see :class:`~penstock.backends.agent.states.RunHost`). It never starts a
worker that no command asked for: whether a failed run is tried again is the server's decision.

A world changes in one of two ways. *Elastic* workers (they said hello) change it in place: newcomers get ready while
the others train on, then all are told the new world. Everyone else is *plain*: ended, and started again in the new
width. A worker that dies takes a plain run with it; elastic survivors go on without it as the next generation.

A *worker without a device* starts with the others, lives through all their worlds and outlives them: when they have
ended well the run has released its devices, and how it ends is how that worker does. If it dies before them they go on.

Devices change hands between runs. No worker of a new world starts on a device that another run has not left yet, and a
run whose newcomers wait lets its own leavers go first: so runs that swap devices never wait for each other.
"""

from collections.abc import Iterable
from typing import Any

from penstock.backends.agent.states import (
    Exit,
    Member,
    RunEnding,
    RunHost,
    RunPhase,
    StaleCommandError,
    WorkerGroup,
    in_rank_order,
)
from penstock.backends.agent.watch.hang_watch import HangStep, HangWatch
from penstock.backends.agent.watch.stack_looks import StackLook
from penstock.core import (
    CheckpointUnreadable,
    FailureReason,
    FinishOrder,
    Launch,
    LeaveOrder,
    ReportKind,
    RunState,
    SuspendOrder,
    Worker,
    World,
)

READY_TIMEOUT_S = 600.0
"""How long a newcomer may take to get ready before the world changes without it."""
JOIN_TIMEOUT_S = 120.0
"""How long the members of an announced world may take to meet before the run counts as hung."""
HAND_OVER_S = 60.0
"""How long a new world waits for its devices; then it shares them with whoever is left there."""
MOST_NONSENSE = 1000
"""Messages that a run may send which cannot be read or cannot be true; then it is ended."""
_NONSENSE_TOLD = 3
_LEAVING_SHARE = 0.8
"""Of the time in which a place is taken away, for workers that end by themselves."""
HANG_CODE = 124
"""The code of a run that was ended because it hung, as ``timeout`` has it."""
NONSENSE_CODE = 65
"""The code of a run that was ended for what it said: EX_DATAERR of sysexits."""


class Supervisor:
    """The state of one run."""

    def __init__(self, launch: Launch, host: RunHost) -> None:
        self._launch = launch
        self._host = host
        self._commanded = launch.generation
        self._wanted = frozenset(worker.id for worker in launch.workers)
        self._next: WorkerGroup | None = None
        self._outcome: RunEnding | None = None
        self._first_death: RunEnding | None = None
        self._suspended: dict[str, Any] | None = None
        self._saved_step: int | None = None
        self._restarts = 0
        self._finishing = False
        self._is_over = False
        self._nonsense = 0
        self._cpu_death: RunEnding | None = None
        self._hang = HangWatch(launch.hang_after_s, learns=launch.learns_hangs, now=host.now())
        self.members: dict[str, Member] = {}
        self.phase = RunPhase.RUNNING
        self.world = WorkerGroup(launch.generation, in_rank_order(launch.workers), host.now())

    @property
    def state(self) -> RunState:
        """Where the run stands, in the words of every backend."""
        if self.phase in (RunPhase.ENDING, RunPhase.OVER):
            return RunState.ENDING
        steady = self.phase in (RunPhase.RUNNING, RunPhase.RELEASED)
        return RunState.RUNNING if steady and self._has_started() else RunState.STARTING

    @property
    def on_devices(self) -> list[Member]:
        """Its processes but for the worker without a device."""
        return [member for member in self.members.values() if member.worker.has_device]

    def _has_started(self) -> bool:
        """Whether every worker has its process; nobody on a device waits for the one without."""
        return all(member.pid is not None for member in self.on_devices or self.members.values())

    # --- commands -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first world, and the worker without a device."""
        if self.world.workers:
            self._open(self.world)
        else:
            self.phase = RunPhase.RELEASED
        if (worker := self._launch.cpu_worker) is not None:
            self._spawn(WorkerGroup(self.world.generation, (worker,), self._host.now()), worker)

    def resize(self, generation: int, workers: tuple[Worker, ...]) -> None:
        """Change to another set of workers; the same command again changes nothing."""
        wanted = frozenset(worker.id for worker in workers)
        if generation <= self._commanded:
            if generation == self._commanded and wanted == self._wanted:
                return
            raise StaleCommandError(f"generation {generation} was overtaken by generation {self._commanded}")
        self._refuse_when_ending("resized")
        if self.phase is RunPhase.RELEASED:
            raise StaleCommandError("the run has given its devices back and cannot be resized")
        self._commanded, self._wanted = generation, wanted
        world = WorkerGroup(max(generation, self.world.generation + 1), in_rank_order(workers), self._host.now())
        if self.phase is RunPhase.RUNNING and self._fits_in_place(world):
            self._change_in_place(world)
        else:
            self._restart(world)

    def suspend(self) -> None:
        """Save and leave: elastic workers by themselves, plain ones by the signal they know."""
        if self._outcome and self._outcome.kind is ReportKind.SUSPENDED:
            return
        self._refuse_when_ending("suspended")
        self._end(RunEnding(ReportKind.SUSPENDED), politely=self._is_elastic())

    def stop(self, grace_s: float, reason: str = FailureReason.STOPPED) -> None:
        """End the run. A second stop may only shorten the first one's grace."""
        if self.phase is RunPhase.OVER:
            return
        if self._outcome is None or self._outcome.kind is ReportKind.SUSPENDED:
            self._end(RunEnding(ReportKind.FAILED, {"code": 143, "reason": reason}), grace_s=grace_s)
        for member in self.members.values():
            self._terminate(member, grace_s)

    def finish(self) -> None:
        """Training is over before all its steps are done: elastic workers end their loops by themselves, so that what
        follows the loop is done; plain ones are ended by the signal they know. Either way the run has finished."""
        if self._is_over or self._finishing or self.phase in (RunPhase.RELEASED, RunPhase.ENDING, RunPhase.OVER):
            return
        self._is_over = True
        if self.phase is RunPhase.RUNNING and self._is_elastic():
            self._tell_over(self.world)
        else:
            self._end(RunEnding(ReportKind.FINISHED, {"code": 0}))

    # --- what workers do ----------------------------------------------------------------------------------------

    def started(self, worker_id: str, pid: int) -> None:
        """A worker's process exists."""
        member = self.members[worker_id]
        member.pid = pid
        self.sign_of_life()
        self._host.report(
            ReportKind.WORKER_STARTED, worker=worker_id, rank=member.rank, pid=pid, generation=member.generation
        )
        if member.asked:
            self._host.terminate(member)
        self._report_restarted()

    def hello(self, worker_id: str, elastic: bool) -> None:
        """A worker speaks the protocol."""
        if member := self.members.get(worker_id):
            if elastic and not any(each.elastic for each in self.members.values()):
                self._host.report(ReportKind.RESUMABLE)
            member.elastic = elastic
            if not member.worker.has_device and self.phase is RunPhase.RELEASED:
                self._host.send(worker_id, FinishOrder())

    def ready(self, worker_id: str) -> None:
        """A worker can join a world now."""
        if member := self.members.get(worker_id):
            member.ready = True
            self._announce_when_ready()

    def met(self, generation: int) -> None:
        """The members of a world have met; from now on only a limit of the job's own can tell that it hangs."""
        if generation == self.world.generation:
            self.world.met = True

    def joined(self, generation: int, pause_s: float) -> None:
        """The members of a world have made their first step."""
        world = self.world
        if generation != world.generation or world.joined or not world.announced:
            return
        world.joined, self._first_death = True, None
        self._hang.begin(self._host.now())
        if world.interim and self._next:
            self._next.owed_s += pause_s
        elif world.in_place:
            self._report_resized(world, pause_s + world.owed_s)
        for member in self.members.values():
            if member.asked and member.terminate_at is None and member.kill_at is None:
                member.terminate_at = self._host.now() + self._launch.grace_s
        self._announce_when_ready()

    def trained(self, worker_id: str) -> None:
        """Progress over the protocol. It proves that a first world met, even if nobody said so."""
        self.stepped()
        member = self.members.get(worker_id)
        if member and member.elastic and not self.world.announced:
            self.world.announced = self.world.joined = True

    def checkpointed(self, said: dict[str, Any]) -> None:
        """State is on the disk."""
        self._saved_step = said.get("step", self._saved_step)
        self._host.report(ReportKind.CHECKPOINTED, **said)

    def checkpoint_failed(self, said: dict[str, Any]) -> None:
        """State could not be saved; the run goes on."""
        self._host.report(ReportKind.CHECKPOINT_FAILED, **said)

    def checkpoint_unreadable(self, said: CheckpointUnreadable) -> None:
        """A worker cannot read the newest checkpoint: it goes on from an older one, or the run stops."""
        reason = f"its checkpoint of step {said.step} cannot be read: {said.reason}; it goes on from step {said.used}"
        if said.used is None:
            reason = f"{said.reason}; the run stops instead of beginning again"
        self._host.report(ReportKind.CHECKPOINT_UNREADABLE, step=said.step, reason=reason)
        if said.used is None and self.phase not in (RunPhase.ENDING, RunPhase.OVER):
            self._end(RunEnding(ReportKind.FAILED, {"code": 1, "reason": FailureReason.UNREADABLE.value}))

    def nonsense(self, what: str) -> None:
        """A worker said what cannot be read or cannot be true. It is ignored; who does nothing else is ended."""
        self._nonsense += 1
        if self._nonsense <= _NONSENSE_TOLD:
            self._host.report(ReportKind.NONSENSE, reason=what)
        if self._nonsense == MOST_NONSENSE and self.phase not in (RunPhase.ENDING, RunPhase.OVER):
            self._host.report(
                ReportKind.NONSENSE, reason=f"{MOST_NONSENSE} messages that say nothing: the run is ended"
            )
            self._end(RunEnding(ReportKind.FAILED, {"code": NONSENSE_CODE, "reason": "nonsense"}))

    def suspended(self, step: int | None) -> None:
        """The workers saved their state and are about to leave."""
        self._suspended = {"step": step}
        self._saved_step = step if step is not None else self._saved_step

    def bye(self, worker_id: str) -> None:
        """A worker has done its steps. So have the others of its world, or will in a moment: no new world would meet.

        Whether its run succeeded is decided by how its process ends: scripts save their final model after the loop.
        """
        if member := self.members.get(worker_id):
            member.done = True
            if worker_id in self.world.ids and not self._finishing:
                self._finishing, self._first_death = True, None

    def leaving(self, worker_id: str, within_s: float, reason: str) -> None:
        """The place of a worker is being taken away. Elastic others go on without it; plain ones end while they can.

        A world that has not met yet cannot be told anything: its worker is lost when its place is.
        """
        member = self.members.get(worker_id)
        if self.phase is not RunPhase.RUNNING or member is None or not member.worker.has_device:
            return
        left = self.world.without(worker_id)
        if self._next and worker_id in self._next.ids and worker_id not in self.world.ids:
            self._terminate(self.members[worker_id], within_s * _LEAVING_SHARE)
            self._lose_newcomer(self._next, worker_id)
        elif not self._is_elastic() or not left:
            outcome = RunEnding(ReportKind.FAILED, {"code": 143, "reason": reason})
            self._end(outcome, politely=self._is_elastic(), grace_s=within_s * _LEAVING_SHARE)
        elif self._may_change():
            generation = max(self._commanded, self.world.generation) + 1
            self._move_to(WorkerGroup(generation, left, self._host.now(), in_place=True))
            if self._next:
                self._next.generation = generation + 1
                self._lose_newcomer(self._next, worker_id)

    def returns(self, worker: Worker) -> bool:
        """Whether a worker that has ended will be started again in the same place."""
        coming = self._next.workers if self.phase is RunPhase.RESTARTING and self._next else ()
        return any((one.id, one.place) == (worker.id, worker.place) for one in coming)

    def can_spare(self, worker_id: str) -> bool:
        """Whether the others would go on without a worker of the present world, or the present world without it."""
        if self.phase is not RunPhase.RUNNING:
            return False
        return worker_id not in self.world.ids or self._can_go_on(self.world.without(worker_id))

    def stepped(self) -> None:
        """Progress, however it was told."""
        self._hang.stepped(self._host.now())

    def sign_of_life(self) -> None:
        """Output of any worker."""
        self._hang.alive(self._host.now())

    def looked(self, look: StackLook) -> None:
        """What the workers are doing while nothing is heard of them; nobody asks any more if something was."""
        if not self._hang.is_silence:
            return
        now = self._host.now()
        silent_s, usual_s = self._hang.silent_for(now), self._hang.usual_s
        usual = f" (the longest time between two steps was {usual_s:.3g} s)" if usual_s else ""
        where = f"; stacks in {look.path}" if look.path else ""
        self._hang.seen(look.positions)
        self._host.report(
            ReportKind.STUCK, reason=f"no sign of life for {silent_s:.0f} s{usual}: {look.text}{where}", path=look.path
        )

    def exited(self, worker_id: str, how: Exit) -> None:
        """A worker's process has ended."""
        member = self.members.pop(worker_id)
        died = how.code != 0 and not member.asked
        reason = how.reason or ("asked" if member.asked else "died" if died else "done")
        self._host.report(
            ReportKind.WORKER_EXITED,
            worker=worker_id,
            rank=member.rank,
            code=how.code,
            signal=how.signal,
            reason=reason,
        )
        if not member.worker.has_device:
            self._cpu_death = _death(how) if how.code != 0 else None
        elif self.phase is RunPhase.RUNNING and died:
            self._lose(member, how)
        elif self.phase is RunPhase.ENDING and self._outcome is not None:
            self._outcome = self._spoilt(self._outcome, member, how)
        elif self.phase is RunPhase.RUNNING and member.asked and self._next and worker_id in self._next.ids:
            self._spawn_missing(self._next)
        if not self.members or (self.phase is RunPhase.RESTARTING and not self.on_devices):
            self._all_gone()
        elif self.phase is RunPhase.RUNNING and not self._state_lives():
            # the work is done; newcomers came for nothing
            if self._first_death is None and self._launch.cpu_worker is not None:
                self._release()
            else:
                self._end(self._first_death or RunEnding(ReportKind.FINISHED, {"code": 0}))

    def tick(self) -> None:
        """Time has passed."""
        now = self._host.now()
        for member in list(self.members.values()):
            if member.kill_at is not None and now >= member.kill_at:
                member.kill_at = now + 1.0  # again, should the kernel not have got to it
                self._host.kill(member)
            elif member.terminate_at is not None and now >= member.terminate_at:
                self._terminate(member, self._launch.grace_s)
        if self.phase is RunPhase.RESTARTING and not self.on_devices:
            self._all_gone()
        if self.phase is RunPhase.RUNNING:
            self._hand_over()
            self._drop_slow_newcomers(now)
            self._end_if_hung(now)

    # --- changing worlds ----------------------------------------------------------------------------------------

    def _is_elastic(self) -> bool:
        """Whether the present world can be talked to: it has met, so all its members said hello, and all live."""
        alive = [self.members.get(worker_id) for worker_id in self.world.ids]
        return self.world.announced and all(member is not None and member.elastic for member in alive)

    def _fits_in_place(self, world: WorkerGroup) -> bool:
        """Someone must stay to hand the state on, and nobody can move to another device while it trains."""
        if not self._is_elastic():
            return False
        kept = [worker for worker in world.workers if worker.id in self.world.ids]
        return bool(kept) and all(self.members[worker.id].worker.place == worker.place for worker in kept)

    def _open(self, world: WorkerGroup) -> None:
        self.world, self.phase, self._next, self._finishing = world, RunPhase.RUNNING, None, False
        self._hang.begin(self._host.now())
        for worker in world.workers:
            self._spawn(world, worker)

    def _spawn(self, world: WorkerGroup, worker: Worker) -> None:
        self.members[worker.id] = Member(worker, world.rank_of(worker.id), world.generation)
        self._host.spawn(world, worker, self._restarts)

    def _spawn_missing(self, world: WorkerGroup) -> None:
        for worker in world.workers:
            if worker.id not in self.members and self._may_start(world, worker):
                self._spawn(world, worker)

    def _may_start(self, world: WorkerGroup, worker: Worker) -> bool:
        waited_s = self._host.now() - world.since
        return waited_s >= HAND_OVER_S or self._host.is_free(worker.place)

    def _hand_over(self) -> None:
        """Start newcomers whose devices have become free; where they have not, free what others may wait for.

        Nobody is started for a world that will not come, because the work is done.
        """
        if self._next is None or self._finishing:
            return
        self._spawn_missing(self._next)
        waits = any(worker.id not in self.members for worker in self._next.workers)
        if waits and self._may_change():
            kept = tuple(worker for worker in self._next.workers if worker.id in self.world.ids)
            if len(kept) < self.world.size:
                interim = WorkerGroup(self.world.generation + 1, kept, self._host.now(), in_place=True, interim=True)
                self._next.generation = max(self._next.generation, interim.generation + 1)
                self._move_to(interim)

    def _change_in_place(self, world: WorkerGroup) -> None:
        world.in_place = True
        if self._next:
            for worker_id in set(self._next.ids) - set(world.ids) - set(self.world.ids):
                if member := self.members.get(worker_id):
                    self._terminate(member, self._launch.grace_s)
        self._next = world
        self._hand_over()
        self._announce_when_ready()

    def _announce_when_ready(self) -> None:
        if self.phase is not RunPhase.RUNNING or self._finishing:
            return
        if not self.world.announced:
            if self._all_ready(self.world):
                self._announce(self.world)
        elif self._next and self._may_change() and self._all_ready(self._next):
            world, self._next = self._next, None
            self._move_to(world)

    def _may_change(self) -> bool:
        """Whether the present world has met, is whole and not about to end, so that all its members can be told."""
        whole = all(worker_id in self.members for worker_id in self.world.ids)
        return self.world.joined and whole and not self._finishing

    def _move_to(self, world: WorkerGroup) -> None:
        world.survivors = tuple(worker_id for worker_id in world.ids if worker_id in self.world.ids)
        leavers = [self.members[worker_id] for worker_id in self.world.ids if worker_id not in world.ids]
        self.world = world
        self._announce(world)
        for member in leavers:
            member.asked = True
            self._host.send(member.worker.id, LeaveOrder())

    def _all_ready(self, world: WorkerGroup) -> bool:
        members = [self.members.get(worker_id) for worker_id in world.ids]
        return all(member and member.elastic and member.ready and not member.asked for member in members)

    def _announce(self, world: WorkerGroup) -> None:
        world.announced, world.since = True, self._host.now()
        self._hang.begin(self._host.now())
        meeting = self._host.rendezvous(world)
        for rank, worker_id in enumerate(world.ids):
            member = self.members[worker_id]
            member.rank, member.generation = rank, world.generation
            self._host.send(
                worker_id,
                World(
                    generation=world.generation, rank=rank, size=world.size, members=world.ids, rendezvous=meeting,
                    survivors=world.survivors,
                ),
            )  # fmt: skip
        if self._is_over:
            self._tell_over(world)

    def _tell_over(self, world: WorkerGroup) -> None:
        for worker_id in world.ids:
            self._host.send(worker_id, FinishOrder())

    def _restart(self, world: WorkerGroup) -> None:
        """End everyone, then start the new world. Elastic workers save first; plain ones save on the signal."""
        if self.phase is RunPhase.RESTARTING and self._next is not None:
            world.since = self._next.since
            self._next = world
            return
        politely = self._is_elastic()
        self._next, self.phase = world, RunPhase.RESTARTING
        self._ask_all(self.on_devices, politely, self._launch.grace_s)
        if not self.on_devices:
            self._all_gone()

    def _report_restarted(self) -> None:
        """A restart is over once every worker has its process; what a plain script does then, nobody knows."""
        if self.world.restarts_others and self.phase is RunPhase.RUNNING and self._has_started():
            self.world.restarts_others = False
            self._report_resized(self.world, self._host.now() - self.world.since)

    def _report_resized(self, world: WorkerGroup, pause_s: float) -> None:
        self._host.report(
            ReportKind.RESIZED, generation=world.generation, width=world.size, pause_s=pause_s, in_place=world.in_place
        )

    # --- losing workers -----------------------------------------------------------------------------------------

    def _lose(self, member: Member, how: Exit) -> None:
        worker_id = member.worker.id
        if worker_id in self.world.ids:
            if not self._finishing:
                self._first_death = self._first_death or _death(how)
                self._lose_present(worker_id, self._first_death)
            elif member.done:  # all steps are done, and the others end by themselves
                self._first_death = self._first_death or _death(how)
        elif self._next and worker_id in self._next.ids:
            self._lose_newcomer(self._next, worker_id)

    def _lose_present(self, worker_id: str, death: RunEnding) -> None:
        left = self.world.without(worker_id)
        if not self._can_go_on(left):
            self._end(death)
            return
        holders = self._state_holders(left)
        self.world = WorkerGroup(
            max(self._commanded, self.world.generation) + 1, left, self._host.now(), survivors=holders, in_place=True
        )
        self._announce(self.world)
        if self._next:
            self._next.generation = self.world.generation + 1
            self._lose_newcomer(self._next, worker_id)

    def _can_go_on(self, left: tuple[Worker, ...]) -> bool:
        alive = [self.members.get(worker.id) for worker in left]
        talking = all(member is not None and member.elastic for member in alive)
        return talking and bool(self._state_holders(left))

    def _state_holders(self, left: tuple[Worker, ...]) -> tuple[str, ...]:
        """Who of those left has the state of training: all if the world has met, else whoever came from the last."""
        return tuple(worker.id for worker in left if self.world.joined or worker.id in self.world.survivors)

    def _state_lives(self) -> bool:
        unmet = self.world.in_place and not self.world.joined
        return any(worker_id in self.members for worker_id in (self.world.survivors if unmet else self.world.ids))

    def _lose_newcomer(self, world: WorkerGroup, worker_id: str) -> None:
        """The coming world does without a worker; if that leaves the present one, nothing comes."""
        world.workers = world.without(worker_id)
        if set(world.ids) == set(self.world.ids):
            self._next = None
            self._host.report(
                ReportKind.RESIZED, generation=world.generation, width=self.world.size, pause_s=0.0, in_place=True
            )
        else:
            self._announce_when_ready()

    def _drop_slow_newcomers(self, now: float) -> None:
        if self._next is None or now - self._next.since < READY_TIMEOUT_S:
            return
        for worker_id in set(self._next.ids) - set(self.world.ids):
            if (member := self.members.get(worker_id)) and not member.ready:
                self._host.kill(member)

    def _end_if_hung(self, now: float) -> None:
        """Nothing is ended before it was looked at. What is learned holds for steps, not for what follows the last."""
        met = self.world.met or self.world.joined
        unmet = self.world.announced and not met and now - self.world.since > JOIN_TIMEOUT_S
        if unmet:
            step = self._hang.look_before_end(now)
        elif self._has_started():
            step = self._hang.next(now, may_end=self._is_elastic() and not self._finishing)
        else:
            return
        if step is HangStep.LOOK:
            self._host.look()
        elif step is HangStep.END:
            self._end(RunEnding(ReportKind.FAILED, {"code": HANG_CODE, "reason": FailureReason.HANG}))

    # --- ending -------------------------------------------------------------------------------------------------

    def _refuse_when_ending(self, what: str) -> None:
        if self.phase in (RunPhase.ENDING, RunPhase.OVER):
            raise StaleCommandError(f"the run is ending and cannot be {what}")

    def _end(self, outcome: RunEnding, politely: bool = False, grace_s: float | None = None) -> None:
        self._outcome, self.phase, self._next = outcome, RunPhase.ENDING, None
        everyone = list(self.members.values())
        self._ask_all(everyone, politely, self._launch.grace_s if grace_s is None else grace_s)
        if not self.members:
            self._all_gone()

    def _ask_all(self, members: Iterable[Member], politely: bool, grace_s: float) -> None:
        for member in members:
            if politely and member.elastic and member.worker.id in self.world.ids:
                member.asked, member.terminate_at = True, self._host.now() + grace_s
                self._host.send(member.worker.id, SuspendOrder())
            else:
                self._terminate(member, grace_s)

    def _terminate(self, member: Member, grace_s: float) -> None:
        """Signal a process once; being asked again can only bring the end nearer."""
        kill_at = self._host.now() + grace_s
        if member.kill_at is None:
            member.asked, member.terminate_at = True, None
            self._host.terminate(member)
        member.kill_at = min(kill_at, member.kill_at or kill_at)

    def _spoilt(self, outcome: RunEnding, member: Member, how: Exit) -> RunEnding:
        """A polite suspension that ends in an accident before anything was saved is a failure."""
        polite = outcome.kind is ReportKind.SUSPENDED and member.elastic and member.kill_at is None
        if polite and how.code != 0 and self._suspended is None:
            return _death(how)
        return outcome

    def _release(self) -> None:
        """The work on devices is done: they are given back when nobody is left there, and the rest needs none."""
        for member in self.on_devices:
            self._terminate(member, self._launch.grace_s)
        if self.on_devices:
            return
        self._host.sweep()
        self.phase, self._next = RunPhase.RELEASED, None
        self._host.report(ReportKind.RELEASED)
        for worker_id in self.members:
            self._host.send(worker_id, FinishOrder())

    def _all_gone(self) -> None:
        if self.phase is RunPhase.OVER:
            return
        self._host.sweep()
        if self.phase is RunPhase.RESTARTING and self._next is not None:
            if not all(self._may_start(self._next, worker) for worker in self._next.workers):
                return  # a tick will ask again
            self._restarts += 1
            self._next.restarts_others = True
            self._open(self._next)
        else:
            ending = self._outcome or self._first_death
            if ending is None and self._cpu_death is not None and self.phase is RunPhase.RUNNING:
                self._host.report(ReportKind.RELEASED)
            self.phase = RunPhase.OVER
            outcome = ending or self._cpu_death or RunEnding(ReportKind.FINISHED, {"code": 0})
            said = {"step": self._saved_step} if outcome.kind is ReportKind.SUSPENDED else outcome.said
            self._host.report(outcome.kind, **said)


def _death(how: Exit) -> RunEnding:
    reason = how.reason or (FailureReason.SIGNAL if how.signal is not None else FailureReason.EXIT)
    return RunEnding(ReportKind.FAILED, {"code": how.code, "reason": reason, "tail": how.tail})
