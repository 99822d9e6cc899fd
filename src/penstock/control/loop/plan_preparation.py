"""Jobs that name a model: a parallel plan for every number of devices they may get, and how they are started.

The plans are searched for while the job is prepared, in a process of their own, and kept by fingerprint. From then on
the job's curve has a plan at each of its counts, and no count without one: what the scheduler grants can be started.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core import ANY_KIND, Cluster, Curve, InputError, Scaling
from penstock.tools import UnixUser, acting_as

if TYPE_CHECKING:
    from penstock.parallel import PlanLibrary
    from penstock.spec import JobFile


class PlanPreparation:
    """Plans under ``data_dir`` for jobs on ``cluster``."""

    def __init__(self, data_dir: Path, cluster: Callable[[], Cluster]) -> None:
        self._data_dir = data_dir
        self._cluster = cluster
        self._library: PlanLibrary | None = None

    def check(self, file: "JobFile", kinds: Iterable[str]) -> None:
        """Refuse a model whose bounds fit on no kind of device; nothing is searched."""
        if file.model is not None:
            most = max(self._cluster().capacity(kind) for kind in kinds)
            _counts(file, most)

    def prepare(self, file: "JobFile", fingerprint: str, kinds: Iterable[str]) -> str:
        """Find plans on every kind that has some; returns what to say, raises where no kind has one."""
        if file.model is None:
            return ""
        found: list[str] = []
        reason: InputError | None = None
        for kind in kinds:
            try:
                scaling = self._ask(file, fingerprint, kind)
            except InputError as problem:
                reason = problem
            else:
                found.append(f"{', '.join(map(str, scaling.counts))} {kind}")
        if reason is not None and not found:
            raise reason
        return f"its speed follows from a plan of {file.model} on each of {' and '.join(found)} devices"

    def command(self, file: "JobFile", command: tuple[str, ...], user: UnixUser | None = None) -> tuple[str, ...]:
        """The command with the sizes of the model, where our own trainer has to know them; unknown models raise."""
        if file.model is None:
            return command
        from penstock.parallel import family_named, trainable, trainer_options

        with acting_as(user):
            family = family_named(file.model, file.seq)
        return (*command, *trainer_options(trainable(family))) if file.uses_own_trainer else command

    def scaling(self, fingerprint: str, kind: str) -> Scaling | None:
        """The plans of a job; None for jobs that name no model."""
        return self.library.known(fingerprint, kind)

    @property
    def library(self) -> "PlanLibrary":
        from penstock.parallel import PlanLibrary

        if self._library is None:
            self._library = PlanLibrary(self._data_dir / "plans")
        return self._library

    def _ask(self, file: "JobFile", fingerprint: str, kind: str) -> Scaling:
        from penstock.parallel import DevicePool, PlanQuestion

        nodes = [node for node in self._cluster().nodes if node.kind == kind]
        pool = DevicePool(
            kind=kind, per_node=max(node.device_count for node in nodes),
            memory_bytes=float(min(node.device_memory for node in nodes)),
        )  # fmt: skip
        question = PlanQuestion(
            model=file.model or "", batch=file.global_batch or 1, seq=file.seq, pool=pool,
            counts=_counts(file, self._cluster().capacity(kind)),
            own_trainer=file.uses_own_trainer, profiles=str(self._data_dir),
        )  # fmt: skip
        return self.library.ask(fingerprint, question)


def _counts(file: "JobFile", capacity: int) -> tuple[int, ...]:
    """Of a model, which is always saved and so can resume."""
    return possible_counts(file.device_bounds(resumable=True).min, file.most_devices(resumable=True), capacity)


def possible_counts(least: int, most: int | None, capacity: int) -> tuple[int, ...]:
    """Powers of two inside the bounds, and the bounds themselves."""
    top = min(capacity, most or capacity)
    if least > top:
        raise InputError(f"at least {least} devices", f"the {top} there are", "Lower devices in the job file")
    powers = {1 << power for power in range(top.bit_length())}
    return tuple(sorted(count for count in {*powers, least, top} if least <= count <= top))


def planned_scaling(planned: Scaling, measured: Curve, capacity: int) -> Scaling:
    """What is known of a job's speed by now, at the counts that have a plan and nowhere else."""
    scaling = measured.scaling(ANY_KIND)
    fitting = [plan for plan in planned.plans if plan.devices <= capacity] or list(planned.plans)
    counts = tuple(plan.devices for plan in fitting)
    return Scaling(
        counts=counts, rates=tuple(measured.rate(count) for count in counts),
        source=planned.source if scaling is None else scaling.source,
        doubts=tuple(measured.doubt(count) for count in counts), plans=tuple(fitting),
        measured=() if scaling is None else tuple(count for count in counts if count in scaling.measured),
    )  # fmt: skip
