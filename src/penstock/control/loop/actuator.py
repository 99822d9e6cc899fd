"""Makes the world look as the state wants it to.

Level-triggered: each pass compares the runs that should be alive with those that are and takes the next step for each.
Nothing is remembered that matters, so a pass after a crash is a pass like any other. Two rules keep the world safe
while it changes: a job never has two runs alive at once, and no run is started on a device before the run that held it
has let go. Runs that are resized wait for each other's devices by themselves: that is the backend's promise.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.backends import Backend
from penstock.control.loop.run_troubles import RunTroubles
from penstock.control.state.records import Wanted
from penstock.core import DeviceSlot, Launch, PenstockError, Recipe, RunStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRuns:
    """What the state wants, taken at one moment so that the backend can be called without holding anybody up.

    ``leaving`` are runs of jobs that are not over: they save their state before they go. ``footprints`` are the devices
    a run may still be using, from before and after the change that is under way; ``heard`` are the generations that
    runs have told about.
    """

    wanted: Mapping[str, Wanted]
    recipes: Mapping[str, Recipe]
    job_of: Mapping[str, str]
    leaving: frozenset[str]
    footprints: Mapping[str, frozenset[DeviceSlot]]
    heard: Mapping[str, int]


@dataclass(slots=True)
class _Patience:
    """How long something has been waited for."""

    since: dict[str, float] = field(default_factory=dict)

    def exhausted(self, what: str, now: float, limit_s: float) -> bool:
        return now - self.since.setdefault(what, now) >= limit_s

    def over(self, what: str) -> None:
        self.since.pop(what, None)


class Actuator:
    """Calls the backend.

    ``patience_s`` bounds how long a run waits to be launched on devices that another one does not let go of. A run that
    was asked to save its state and has not gone after the job's grace time is stopped.
    """

    def __init__(
        self,
        backend: Backend,
        troubles: RunTroubles,
        *,
        on_launch_error: Callable[[Wanted, Exception], None],
        patience_s: float = 60.0,
    ) -> None:
        self._backend = backend
        self._troubles = troubles
        self._on_launch_error = on_launch_error
        self._patience_s = patience_s
        self._waiting = _Patience()
        self._told: dict[str, int] = {}
        self._asked_to_go: dict[str, float] = {}
        self._said: set[tuple[str, str]] = set()
        self.launched_at: dict[str, float] = {}

    def work(self, picture: DesiredRuns, statuses: Iterable[RunStatus], now: float) -> None:
        """One pass."""
        known = {status.run_id: status for status in statuses}
        alive = [run_id for run_id, status in known.items() if status.alive]
        for run_id in alive:
            if run_id not in picture.wanted:
                with self._troubles.contained(run_id, "ending it"):
                    self._send_away(run_id, picture, now)
        for run_id, want in picture.wanted.items():
            with self._troubles.contained(run_id, "shaping it"):
                if run_id in alive:
                    self._shape(want, picture, alive, now)
                elif run_id not in known:
                    self._launch(want, picture, alive, now)

    def _send_away(self, run_id: str, picture: DesiredRuns, now: float) -> None:
        recipe = picture.recipes.get(picture.job_of.get(run_id, ""))
        grace = recipe.grace_s if recipe is not None else 30.0
        asked = self._asked_to_go.setdefault(run_id, now)
        if run_id in picture.leaving and now - asked < grace:
            self._once("suspend", run_id, lambda: self._backend.suspend(run_id))
        else:
            self._once("stop", run_id, lambda: self._backend.stop(run_id, grace))

    def _shape(self, want: Wanted, picture: DesiredRuns, alive: Iterable[str], now: float) -> None:
        told = max(self._told.get(want.run_id, -1), picture.heard.get(want.run_id, -1))
        too_early = told >= want.generation or now < want.not_before
        if too_early or not _alone(want, picture, alive):
            return
        if self._try("resize", want.run_id, lambda: self._backend.resize(want.run_id, want.workers, want.generation)):
            self._told[want.run_id] = want.generation

    def _launch(self, want: Wanted, picture: DesiredRuns, alive: Iterable[str], now: float) -> None:
        if now < want.not_before or not self._clear(want, picture, alive, now):
            return
        try:
            self._backend.launch(_launch_of(want, picture.recipes[want.job_id]))
        except Exception as error:
            _log.exception("run %s cannot be launched", want.run_id)
            self._on_launch_error(want, error)
        else:
            self._told[want.run_id] = want.generation
            self.launched_at[want.run_id] = now

    def _clear(self, want: Wanted, picture: DesiredRuns, alive: Iterable[str], now: float) -> bool:
        """Whether no other run of the job is alive and nobody else is left on its devices."""
        if not _alone(want, picture, alive):
            return False
        others = (picture.footprints.get(run_id, frozenset()) for run_id in alive if run_id != want.run_id)
        taken = frozenset[DeviceSlot]().union(*others)
        waits_for = f"{want.run_id}@{want.generation}"
        if want.devices & taken and not self._waiting.exhausted(waits_for, now, self._patience_s):
            return False
        self._waiting.over(waits_for)
        return True

    def forget(self, run_id: str) -> None:
        """A run has ended and everything it told is known; its logs stay."""
        if self._try("forget", run_id, lambda: self._backend.forget(run_id)):
            for memory in (self._told, self._asked_to_go, self.launched_at):
                memory.pop(run_id, None)
            self._said -= {("suspend", run_id), ("stop", run_id)}

    def _once(self, what: str, run_id: str, call: Callable[[], None]) -> None:
        if (what, run_id) not in self._said and self._try(what, run_id, call):
            self._said.add((what, run_id))

    def _try(self, what: str, run_id: str, call: Callable[[], None]) -> bool:
        """Whether the backend took it; if not, the next pass tries again."""
        try:
            call()
        except PenstockError as error:
            _log.warning("run %s: %s failed, trying again: %s", run_id, what, error)
            return False
        except Exception:
            _log.exception("run %s: %s failed; trying again", run_id, what)
            return False
        return True


def _alone(want: Wanted, picture: DesiredRuns, alive: Iterable[str]) -> bool:
    """Whether no other run of the job is alive."""
    return not any(run_id != want.run_id and picture.job_of.get(run_id) == want.job_id for run_id in alive)


def _launch_of(want: Wanted, recipe: Recipe) -> Launch:
    return Launch(
        run_id=want.run_id, job_id=want.job_id, command=recipe.command, workers=want.workers,
        generation=want.generation, attempt=want.attempt, env=recipe.env, working_dir=recipe.working_dir,
        checkpoint_dir=recipe.checkpoint_dir, grace_s=recipe.grace_s, hang_after_s=recipe.hang_after_s,
        plans=want.plans, tenant=recipe.tenant,
    )  # fmt: skip
