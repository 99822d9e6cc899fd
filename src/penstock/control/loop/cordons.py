"""Nodes that a diagnosis finds bad are drained, so that the next try is made elsewhere.

Only where the cause is the hardware and the node is known for certain, and never the last one that there is: a laptop
with a bad device is still where its owner works, and is told instead.
"""

from collections.abc import Iterable, Iterator

from penstock.control.state.entries import Absence, Entry, NodeLeft, RunFailed, RunNoted
from penstock.control.state.platform_state import PlatformState
from penstock.core import SURE, Remedy


def cordons(entries: Iterable[Entry], state: PlatformState) -> Iterator[Entry]:
    """What follows from failures for the nodes they happened on."""
    for entry in entries:
        if isinstance(entry, RunFailed) and (node := _bad_node(entry, state)):
            yield from _cordon(entry, node, state)


def _bad_node(entry: RunFailed, state: PlatformState) -> str:
    found = entry.diagnosis
    if found is None or found.action is not Remedy.CORDON_AND_RESTART or found.confidence < SURE:
        return ""
    present = {node.name for _, node in state.scheduler.cluster.present()} - state.absent.keys()
    return found.culprit.node if found.culprit.node in present else ""


def _cordon(entry: RunFailed, node: str, state: PlatformState) -> Iterator[Entry]:
    assert entry.diagnosis is not None
    cause = f"{entry.diagnosis.category}, {entry.diagnosis.cause}"
    usable = {known.name for _, known in state.scheduler.cluster.present()} - state.absent.keys()
    if usable == {node}:
        told = f"node {node} looks bad ({cause}) and is the only one, so it goes on being used"
        yield RunNoted(at=entry.at, job_id=entry.job_id, run_id=entry.run_id, text=told)
        return
    yield NodeLeft(at=entry.at, node=node, why=Absence.DRAINED, reason=f"the doctor found {cause}")
