"""What a pod's status says of its part: waiting and why, running, or ended and how, in the cluster's own words."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.backends.agent.parts import PartEnd, PartFate
from penstock.backends.kubernetes.cluster_api import Manifest

_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_EVICTIONS = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated"})
_REFUSALS = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "Admission")
OUT_OF_MEMORY = "OOMKilled"
DISRUPTED = "DisruptionTarget"


class Wait(StrEnum):
    """What a pod that does not run waits for."""

    ROOM = "room"
    IMAGE = "image"
    HOPELESS = "hopeless"
    """It will never run as it is."""


@dataclass(frozen=True, slots=True)
class Waiting:
    wait: Wait
    words: str


def waiting(pod: Manifest) -> Waiting | None:
    """Why a pod does not run yet; nothing for one that runs or has not been looked at."""
    status = pod["status"]
    if status.get("phase") != "Pending":
        return None
    for state in (one.get("state", {}).get("waiting") for one in status.get("containerStatuses") or ()):
        if state and state.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            words = _words(state["reason"], state.get("message"))
            return Waiting(Wait.HOPELESS if state["reason"] in _HOPELESS else Wait.IMAGE, words)
        if state and state.get("message"):
            return Waiting(Wait.IMAGE, _words(state.get("reason"), state["message"]))
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return Waiting(Wait.ROOM, _words(one.get("reason"), one.get("message")))
    return None


def ended(pod: Manifest) -> PartEnd | None:
    """How a pod ended that is still listed; nothing for one that may still run."""
    status = pod["status"]
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    reason, message = status.get("reason", ""), status.get("message", "")
    if reason in _EVICTIONS:
        return PartEnd(fate=PartFate.EVICTED, code=_code(pod), words=_words(reason, message))
    if reason == "NodeLost":
        return PartEnd(fate=PartFate.NODE_LOST, words=_words(reason, message))
    if reason.startswith(_REFUSALS):
        return PartEnd(fate=PartFate.REFUSED, words=_words(reason, message))
    return _by_container(pod, _words(reason, message))


def vanished(pod: Manifest) -> PartEnd:
    """How a pod ended that is not listed any more."""
    for one in pod["status"].get("conditions") or ():
        if one["type"] == DISRUPTED and one["status"] == "True":
            return PartEnd(fate=PartFate.EVICTED, code=_code(pod), words=_words(one.get("reason"), one.get("message")))
    found = ended(pod)
    if found is not None and found.fate is not PartFate.EXITED:
        return found
    return PartEnd(fate=PartFate.DELETED, code=_code(pod), words="the pod was deleted")


def seems_lost(pod: Manifest) -> bool:
    """Whether the cluster says that a running pod is not ready or to go: its node may be lost."""
    if pod["status"].get("phase") != "Running":
        return False
    ready = [one for one in pod["status"].get("conditions") or () if one["type"] == "Ready"]
    return "deletionTimestamp" in pod["metadata"] or any(one["status"] != "True" for one in ready)


def node_fault(node: Manifest | None) -> str:
    """Why what ran on a node is lost; empty if the node is there and speaks."""
    if node is None:
        return "the node was deleted"
    for one in node["status"].get("conditions") or ():
        if one["type"] == "Ready" and one["status"] != "True":
            return f"node {node['metadata']['name']} is NotReady: {_words(one.get('reason'), one.get('message'))}"
    return ""


def _by_container(pod: Manifest, words: str) -> PartEnd:
    state = _terminated(pod)
    if state.get("reason") == OUT_OF_MEMORY:
        return PartEnd(fate=PartFate.OUT_OF_MEMORY, code=_code(pod), words=_words(OUT_OF_MEMORY, state.get("message")))
    if state.get("reason") in ("StartError", "ContainerCannotRun"):
        return PartEnd(fate=PartFate.REFUSED, code=_code(pod), words=_words(state["reason"], state.get("message")))
    return PartEnd(
        fate=PartFate.EXITED, code=_code(pod), words=words or _words(state.get("reason"), state.get("message"))
    )


def _terminated(pod: Manifest) -> Manifest:
    for one in pod["status"].get("containerStatuses") or ():
        found: Manifest | None = one.get("state", {}).get("terminated")
        if found:
            return found
    return {}


def _code(pod: Manifest) -> int | None:
    return _terminated(pod).get("exitCode")


def _words(reason: str | None, message: str | None) -> str:
    return ": ".join(word for word in (reason, message) if word)
