"""Nodes that a job file names, held against those that there are: what can never be is refused at once."""

from collections.abc import Sequence

from penstock.core import Cluster, InputError, NodeChoice, UnknownNameError

_LIST = "`penstock nodes` lists them"


def check_choice(cluster: Cluster, choice: NodeChoice, kinds: Sequence[str], least: int) -> None:
    """Refuse nodes that nobody knows, and such that could never hold ``least`` devices of one of these kinds."""
    known = [node.name for _, node in cluster.present()]
    for name in choice.names:
        if name not in known:
            raise UnknownNameError.of("node", name, known, _LIST)
    if not choice.confines:
        return
    most = max((choice.capacity(cluster, kind) for kind in kinds), default=0)
    if not most:
        given = f"nodes ({choice}) without a device of {' or '.join(kinds)}"
        raise InputError(given, "nodes that have some", _LIST)
    if most < least:
        raise InputError(
            f"at least {least} devices {choice}", f"at most {most}: that is what these nodes have",
            "Ask for fewer devices, or allow more nodes",
        )  # fmt: skip
