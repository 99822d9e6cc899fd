"""What every place that runs jobs can do.

A backend starts processes and tells what became of them. It decides nothing: whether a failed run is tried again, and
on which devices, is the server's business. Whatever it tells is durable and numbered, so a server that was away reads
on where it stopped. It knows devices by node and slot; what index a scheduler has given them is not its business.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.core import (
    DeviceSlot,
    InputError,
    Launch,
    MetricSeries,
    Node,
    PenstockError,
    Recipe,
    Report,
    RunStatus,
    RunWatch,
    Usage,
    Worker,
)


class BackendError(PenstockError):
    """The place where jobs run did not do what it was asked; says which run, what happened and what to look at."""


class SilentError(BackendError):
    """Whoever looks after a run does not answer; asked again, it may."""


class ShortageError(BackendError):
    """The machine has too few processes, descriptors, memory or room for one more run: no fault of the run."""


class PreparationError(InputError):
    """A recipe asks for what cannot be made ready; ``tail`` is the last that whoever tried has said."""

    def __init__(self, given: str, allowed: str = "", hint: str = "", *, tail: tuple[str, ...] = ()) -> None:
        super().__init__(given, allowed, hint)
        self.tail = tail


class Backend(Protocol):
    """Where runs live. Every command is idempotent: a server that is not sure whether it was heard says it again."""

    @property
    def name(self) -> str:
        """How people call this backend: "local", "kubernetes"."""
        ...

    @property
    def promises(self) -> bool:
        """Whether a device that is granted is there at once. If not, quotes are forecasts and say so."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """What there is to run on. Names are stable; the order means nothing, and nodes may come and go."""
        ...

    def unusable(self) -> Mapping[DeviceSlot, str]:
        """Devices of :meth:`nodes` that cannot be used now, each with the reason: one can be lost without its node."""
        ...

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:
        """Make ready what runs of a job need besides devices: an environment with its packages, an image.

        Returns the recipe to launch. May take minutes, ``tell`` says what is being done; never called inside of
        somebody's request. The same recipe again is quick. Raises :class:`PreparationError` for what can never be.
        """
        ...

    def launch(self, launch: Launch) -> None:
        """Start a run. The same run again changes nothing; a later attempt or generation of an ended run starts it.

        A ``released`` report tells when its workers have left their devices and its worker without one goes on.

        Raises :class:`ShortageError` where there is too little of something now; it is asked again later.
        """
        ...

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        """Ask for the next world. Returns when the request is accepted; a ``resized`` report tells when it is done.

        Devices that another run has not left yet are waited for, and what this run leaves it leaves meanwhile: runs
        that swap devices may be asked in any order, all at once.
        """
        ...

    def suspend(self, run_id: str) -> None:
        """Ask a run to save its state and leave its devices; a ``suspended`` report tells when it has."""
        ...

    def stop(self, run_id: str, grace_s: float) -> None:
        """Ask a run to end, and end it after ``grace_s``; a ``failed`` report with reason "stopped" tells when."""
        ...

    def forget(self, run_id: str) -> None:
        """Drop what is kept about an ended run, except its logs and checkpoints."""
        ...

    def runs(self) -> tuple[RunStatus, ...]:
        """Every run this backend knows, also those another server started, and how far each has come."""
        ...

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        """What the run told after ``after_seq``, in order and without gaps."""
        ...

    def logs(self, run_id: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:
        """Up to ``limit`` bytes of output from ``offset`` on, and the offset to go on from."""
        ...

    def log_offset(self, run_id: str, worker: str | None, since: float) -> int:
        """Where output begins that was written at ``since`` or later, to a second: at the end if there is none yet."""
        ...

    def metrics(self, run_id: str) -> tuple[MetricSeries, ...]:
        """The metrics that the run told, thinned; also of one that was forgotten, as its logs. None is no error."""
        ...

    def usage_curves(self, run_id: str) -> tuple[MetricSeries, ...]:
        """What the run used over time, thinned, by whole seconds; also of one that was forgotten. None is no error."""
        ...

    def watched(self, run_id: str) -> RunWatch | None:
        """What was seen last of how the run trains; also of one that was forgotten. None is no error."""
        ...

    def usage(self, run_id: str) -> Usage:
        """What the run uses right now and has used so far; of one that has ended only its totals are left."""
        ...
