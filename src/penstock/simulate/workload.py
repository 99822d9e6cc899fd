"""A trace together with the curves its jobs follow: everything a comparison needs to know about the jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.core import ANY_KIND, Cluster, Event, InputError, Job
from penstock.simulate.traces import Profiles, Trace, TraceJob, elastic, jobs_of, with_deadline, with_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to be scheduled. ``deadlines`` draws missing ones as multiples of the duration; ``caps`` bounds widths.

    ``elastic`` lets jobs of a trace with fixed sizes run on any number of devices that the profiles have speeds for.
    """

    trace: Trace
    profiles: Profiles
    seed: int = 0
    deadlines: tuple[float, float] | None = None
    caps: bool = False
    elastic: bool = False
    events: Sequence[Event] = ()
    """What happens besides, in order of time: leases, drains, pauses, edits and the like."""

    def records(self) -> Sequence[TraceJob]:
        """The trace with every job's model, duration and deadline filled in."""
        records = [with_model(record, self.profiles, seed=self.seed) for record in self._told()]
        if self.deadlines is None:
            return records
        return [with_deadline(record, self.deadlines, seed=self.seed) for record in records]

    def jobs(self) -> Sequence[Job]:
        return list(
            jobs_of(self._told(), self.profiles, seed=self.seed, deadlines=self.deadlines, caps=self.caps)
        )  # fmt: skip

    def check_kinds(self, cluster: Cluster) -> None:
        """Refuse a cluster of which the profiles know no kind of device: no job could ever run there."""
        known = self.profiles.kinds
        if ANY_KIND not in known and not known & set(cluster.kinds):
            raise InputError(
                f"the cluster {cluster} has {', '.join(cluster.kinds)}, of which {self.profiles.name} knows nothing",
                ", ".join(sorted(known)), f"Try --cluster 4x8x{min(known)}",
            )  # fmt: skip

    def _told(self) -> Iterable[TraceJob]:
        return (elastic(record, self.profiles) for record in self.trace) if self.elastic else self.trace
