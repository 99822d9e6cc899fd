"""Makes the world look as the state wants it to.

Level-triggered: each pass compares the runs that should be alive with those that are and takes the next step for each.
Nothing is remembered that matters, so a pass after a crash is a pass like any other. Two rules keep the world safe
while it changes: a job never has two runs alive at once, and no run is started on a device before the run that held it
has let go. Runs that are resized wait for each other's devices by themselves: that is the backend's promise.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from penstock.backends import Backend, ShortageError, SilentError
from penstock.control.loop.backend_calls import BackendCalls
from penstock.control.loop.run_troubles import RunTroubles, job_of_run
from penstock.control.state.records import Wanted
from penstock.core import SAVED_STEP, DeviceSlot, Launch, NodeHealth, PenstockError, Preflight, Recipe, RunStatus

_log = logging.getLogger(__name__)
_GRACE_S = 30.0
_TOGETHER_S = 0.5
"""How long a pass waits for the calls it made, all together."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRuns:
    """What the state wants, taken at one moment so that the backend can be called without holding anybody up.

    ``leaving`` are runs of jobs that are not over: they save their state before they go. ``footprints`` are the devices
    a run may still be using, from before and after the change that is under way.
    """

    wanted: Mapping[str, Wanted]
    recipes: Mapping[str, Recipe]
    leaving: frozenset[str]
    footprints: Mapping[str, frozenset[DeviceSlot]]
    health: Mapping[str, NodeHealth] = field(default_factory=dict)
    """Nodes that passed a check, and when."""


@dataclass(slots=True)
class _Patience:
    """How long something has been waited for."""

    since: dict[str, float] = field(default_factory=dict)

    def exhausted(self, what: str, now: float, limit_s: float) -> bool:
        return now - self.since.setdefault(what, now) >= limit_s

    def over(self, what: str) -> None:
        self.since.pop(what, None)


@dataclass(slots=True)
class _HeldBack:
    """Until when a job is not launched again because the machine was short of something, and how long that was."""

    until: float = -math.inf
    wait_s: float = 0.0

    def longer(self, now: float) -> None:
        self.wait_s = min(max(2.0 * self.wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S)
        self.until = now + self.wait_s


class Actuator:
    """Calls the backend.

    ``patience_s`` bounds how long a run waits to be launched on devices that another one does not let go of. A run that
    was asked to save its state and has not gone after the job's grace time is stopped. Calls are made ``concurrency``
    at a time; ``nudge`` is called when one ends that a pass did not wait for.
    """

    def __init__(
        self,
        backend: Backend,
        troubles: RunTroubles,
        *,
        on_launch_error: Callable[[Wanted, Exception], None],
        nudge: Callable[[], None],
        patience_s: float = 60.0,
        concurrency: int = 8,
    ) -> None:
        self._backend = backend
        self._troubles = troubles
        self._on_launch_error = on_launch_error
        self._patience_s = patience_s
        self._calls = BackendCalls(concurrency, nudge)
        self._waiting = _Patience()
        self._held_back: dict[str, _HeldBack] = {}
        self._told: dict[str, int] = {}
        self._asked_to_go: dict[str, float] = {}
        self._said: set[tuple[str, str]] = set()
        self.launched_at: dict[str, float] = {}
        self.blocked_by: dict[str, tuple[str, ...]] = {}
        """Runs that are not launched yet, and the runs that have not left their devices."""
        self.leaving: Mapping[str, frozenset[DeviceSlot]] = {}
        """Runs that are to end and live, and the devices that they may still be using."""

    def work(self, picture: DesiredRuns, statuses: Iterable[RunStatus], now: float) -> None:
        """One pass."""
        self._calls.finish(0.0)
        known = {status.run_id: status for status in statuses}
        alive = {run_id for run_id, status in known.items() if status.alive} | self._calls.occupied.keys()
        self.leaving = {run_id: picture.footprints.get(run_id, frozenset()) for run_id in alive - picture.wanted.keys()}
        self.blocked_by = {run_id: others for run_id, others in self.blocked_by.items() if run_id in picture.wanted}
        for run_id in sorted(self.leaving):
            with self._troubles.contained(run_id, "ending it"):
                self._send_away(run_id, picture, now)
        for run_id, want in picture.wanted.items():
            with self._troubles.contained(run_id, "shaping it"):
                if run_id in alive:
                    self._shape(want, alive, now)
                elif run_id not in known and run_id not in self.launched_at:
                    self._launch(want, picture, alive, now)
        self._calls.finish(_TOGETHER_S)

    def is_settled(self, picture: DesiredRuns, statuses: Sequence[RunStatus]) -> bool:
        """Whether exactly the runs that are wanted are alive, each was told its shape, and no call is under way."""
        alive = {status.run_id for status in statuses if status.alive}
        return (
            not self._calls.occupied
            and alive == picture.wanted.keys()
            and len(alive) == len(statuses)
            and all(map(self._has_shape, picture.wanted.values()))
        )

    def _has_shape(self, want: Wanted) -> bool:
        """Whether a run was told how it should look; one without devices has nothing to be told."""
        return not want.workers or self._told.get(want.run_id, -1) >= want.generation

    def is_launching(self, run_id: str) -> bool:
        """Whether a call for a run is under way: nobody knows yet whether it is there."""
        return self._calls.is_busy(run_id)

    def _send_away(self, run_id: str, picture: DesiredRuns, now: float) -> None:
        recipe = picture.recipes.get(job_of_run(run_id))
        grace = recipe.grace_s if recipe is not None else _GRACE_S
        asked = self._asked_to_go.setdefault(run_id, now)
        if run_id in picture.leaving and now - asked < grace:
            self._once("suspend", run_id, lambda: self._backend.suspend(run_id))
        else:
            self._once("stop", run_id, lambda: self._backend.stop(run_id, grace))

    def _shape(self, want: Wanted, alive: Collection[str], now: float) -> None:
        if self._has_shape(want) or now < want.not_before or not _alone(want, alive):
            return

        def done(error: Exception | None) -> None:
            if self._took("resize", want.run_id, error):
                self._told[want.run_id] = want.generation

        def resize() -> None:
            self._backend.resize(want.run_id, want.workers, want.generation)

        self._calls.begin(want.run_id, resize, done, want.devices)

    def heard(self, generations: Mapping[str, int]) -> None:
        """Runs have told about these generations: nobody has to ask them for those."""
        for run_id, generation in generations.items():
            if generation > self._told.get(run_id, -1):
                self._told[run_id] = generation

    def _launch(self, want: Wanted, picture: DesiredRuns, alive: Set[str], now: float) -> None:
        held_back = self._held_back.get(want.job_id, _HeldBack())
        if now < max(want.not_before, held_back.until) or not self._clear(want, picture, alive, now):
            return
        recipe = picture.recipes[want.job_id]
        launch = replace(_launch_of(want, recipe), preflight=_preflight(recipe, picture.health, now))
        self._calls.begin(
            want.run_id, lambda: self._backend.launch(launch), lambda error: self._launched(want, now, error),
            want.devices,
        )  # fmt: skip

    def _launched(self, want: Wanted, now: float, error: Exception | None) -> None:
        if isinstance(error, ShortageError):
            self._held_back.setdefault(want.job_id, _HeldBack()).longer(now)
            self._troubles.lasts(want.run_id, "launching it", f"it cannot be started now and waits: {error}")
            return
        self._troubles.over(want.run_id, "launching it")
        self._held_back.pop(want.job_id, None)
        if error is not None:
            _log.error("run %s cannot be launched", want.run_id, exc_info=error)
            self._on_launch_error(want, error)
        else:
            self._told[want.run_id] = want.generation
            self.launched_at[want.run_id] = now

    def _clear(self, want: Wanted, picture: DesiredRuns, alive: Set[str], now: float) -> bool:
        """Whether no other run of the job is alive and nobody else is left on its devices."""
        occupied = self._calls.occupied
        there = tuple(
            run_id for run_id in sorted(alive - {want.run_id})
            if want.devices & (picture.footprints.get(run_id, frozenset()) | occupied.get(run_id, frozenset()))
        )  # fmt: skip
        waits_for, alone = f"{want.run_id}@{want.generation}", _alone(want, alive)
        if not alone or (there and not self._waiting.exhausted(waits_for, now, self._patience_s)):
            self.blocked_by[want.run_id] = there
            return False
        self.blocked_by.pop(want.run_id, None)
        self._waiting.over(waits_for)
        return True

    def forget(self, run_id: str) -> None:
        """A run has ended and everything it told is known; its logs stay."""
        if self._calls.is_busy(run_id):
            return
        try:
            self._backend.forget(run_id)
        except Exception as error:
            self._took("forget", run_id, error)
            return
        for memory in (self._told, self._asked_to_go, self.launched_at):
            memory.pop(run_id, None)
        self._said -= {("suspend", run_id), ("stop", run_id)}

    def _once(self, what: str, run_id: str, call: Callable[[], None]) -> None:
        def done(error: Exception | None) -> None:
            if self._took(what, run_id, error):
                self._said.add((what, run_id))

        if (what, run_id) not in self._said:
            self._calls.begin(run_id, call, done)

    def _took(self, what: str, run_id: str, error: Exception | None) -> bool:
        """Whether the backend took it; if not, the next pass tries again."""
        if isinstance(error, SilentError):
            self._troubles.lasts(run_id, what, f"it does not answer to {what}; it is asked again")
            return False
        self._troubles.over(run_id, what)
        if isinstance(error, PenstockError):
            _log.warning("run %s: %s failed, trying again: %s", run_id, what, error)
        elif error is not None:
            _log.error("run %s: %s failed; trying again", run_id, what, exc_info=error)
        return error is None


def _alone(want: Wanted, alive: Iterable[str]) -> bool:
    """Whether no other run of the job is alive."""
    return not any(run_id != want.run_id and job_of_run(run_id) == want.job_id for run_id in alive)


def _preflight(recipe: Recipe, health: Mapping[str, NodeHealth], now: float) -> Preflight | None:
    """What its agent is to check; nodes of which enough is known are left out, wherever the run will grow to."""
    rule = recipe.preflight
    if rule is None:
        return None
    fit = tuple(sorted(node for node, known in health.items() if known.satisfies(rule, now)))
    return Preflight(level=rule.level, from_devices=rule.from_devices, fit=fit)


def _variables(want: Wanted, recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """With what was saved, so that a run which finds nothing of it does not begin again at step 0."""
    return (*recipe.env, (SAVED_STEP, str(want.saved_step))) if want.saved_step else recipe.env


def _launch_of(want: Wanted, recipe: Recipe) -> Launch:
    return Launch(
        run_id=want.run_id, job_id=want.job_id, command=recipe.command, workers=want.workers,
        generation=want.generation, attempt=want.attempt, env=_variables(want, recipe), working_dir=recipe.working_dir,
        checkpoint_dir=recipe.checkpoint_dir, grace_s=recipe.grace_s, hang_after_s=recipe.hang_after_s,
        learns_hangs=recipe.learns_hangs, plans=want.plans, container=recipe.container, limits=recipe.limits,
        tenant=recipe.tenant, secrets=recipe.secrets, until=want.until, best=want.best, cpu_worker=want.cpu_worker,
    )  # fmt: skip
