"""The server's view of a Slurm cluster, kept by a thread of its own: nobody who asks for it waits for Slurm.

A controller that is away makes every command take its time before it fails; meanwhile nodes are as they were last seen.
"""

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.backends.slurm.commands import SlurmCommands, SlurmError
from penstock.backends.slurm.node_requests import NodeRequests
from penstock.backends.slurm.nodes import SlurmNode, held_by_others, parse_nodes
from penstock.backends.slurm.queue import EVERY_S, BatchJob, BatchQueue
from penstock.backends.slurm.settings import SlurmSettings
from penstock.core import NO_DEVICE, DeviceSlot

_log = logging.getLogger(__name__)

NODES_EVERY_S = 3.0
"""How often nodes are looked at."""
DOUBT_S = 20.0
"""How long a node may be silent before its devices count as lost: a controller that starts knows none for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What was seen last; ``unusable`` are devices with Slurm's word on why."""

    nodes: tuple[SlurmNode, ...] = ()
    unusable: Mapping[DeviceSlot, str] = field(default_factory=dict)


class ClusterWatch:
    """Looks at nodes and batch jobs again and again, and ends batch jobs of runs that have nobody left."""

    def __init__(
        self, settings: SlurmSettings, commands: SlurmCommands, queue: BatchQueue, requests: NodeRequests
    ) -> None:
        self._settings = settings
        self._commands = commands
        self._queue = queue
        self._requests = requests
        self._suspected: Mapping[DeviceSlot, str] = {}
        self._doubted_since: dict[str, float] = {}
        self._ending: dict[str, bool] = {}
        self._nodes_at = float("-inf")
        self._over = threading.Event()
        self.view = ClusterView()

    def begin(self) -> None:
        """Look once, and go on looking in the background until nobody has any use for this."""
        self.look()
        mine, over = weakref.ref(self), self._over
        weakref.finalize(self, over.set)
        threading.Thread(target=_look_on, args=(mine, over), name="penstock-slurm", daemon=True).start()

    def end_jobs(self, run_id: str) -> bool:
        """Have all batch jobs of a run ended; whether none is left, as far as is known."""
        return self._ending.setdefault(run_id, False)

    def forget(self, run_id: str) -> None:
        self._ending.pop(run_id, None)

    def look(self) -> None:
        """One look at everything that is due; raises what Slurm answers."""
        jobs = self._queue.jobs(EVERY_S / 4)
        if time.monotonic() - self._nodes_at >= NODES_EVERY_S:
            self._look_at_nodes(jobs)
        for run_id in [run_id for run_id, ended in self._ending.items() if not ended]:
            left = [job.id for job in jobs.values() if job.name.run_id == run_id and not job.over]
            if left:
                self._commands.run("scancel", *left)
            self._ending[run_id] = not left

    def _look_at_nodes(self, jobs: Mapping[str, BatchJob]) -> None:
        """A slot counts as held by others when two looks agree: jobs that come and go in between are our own."""
        text = self._commands.run("scontrol", "show", "nodes", "--oneliner", "--details")
        nodes = parse_nodes(text, self._settings.partition, self._settings.cpus)
        self._requests.keep(nodes)
        held = held_by_others(nodes, _own_slots(jobs))
        agreed = {place: why for place, why in held.items() if place in self._suspected}
        self._suspected = held
        self._nodes_at = time.monotonic()
        self.view = ClusterView(nodes=nodes, unusable={**agreed, **self._troubles(nodes)})

    def _troubles(self, nodes: tuple[SlurmNode, ...]) -> dict[DeviceSlot, str]:
        now = time.monotonic()
        silent = {node.name for node in nodes if node.is_silent}
        self._doubted_since = {name: self._doubted_since.get(name, now) for name in silent}
        found: dict[DeviceSlot, str] = {}
        for node in nodes:
            words = node.trouble(bool(self._settings.reservation))
            if not words and now - self._doubted_since.get(node.name, now) > DOUBT_S:
                words = f"{node.state}: does not answer"
            found |= {DeviceSlot(node.name, slot): words for slot in range(node.count) if words}
        return found


def _look_on(watch: "weakref.ref[ClusterWatch]", over: threading.Event) -> None:
    complaint = ""
    while not over.wait(EVERY_S):
        present = watch()
        if present is None:
            return
        try:
            present.look()
            complaint = ""
        except SlurmError as error:
            if str(error) != complaint:
                complaint = str(error)
                _log.warning("the cluster is as it was last seen: %s", error)
        except Exception:
            _log.exception("looking at the cluster failed")
        del present


def _own_slots(jobs: Mapping[str, BatchJob]) -> dict[str, set[int]]:
    """Devices that batch jobs of ours hold; one without a device holds a core, which is a slot less where slots are."""
    ours: dict[str, set[int]] = {}
    for job in jobs.values():
        if not job.over and not job.waits and job.name.slot != NO_DEVICE:
            ours.setdefault(job.node, set()).add(job.name.slot)
    return ours
