"""One grammar for groups of equal devices: ``[NODESx]DEVICES[xKIND][-MEMORY]``, as clusters and plans are named.

>>> parse_device_group("4x8xA100-80GB")
DeviceGroup(nodes=4, per_node=8, kind='A100', memory='80GB')
>>> parse_device_group("8xascend-910b")
DeviceGroup(nodes=None, per_node=8, kind='ascend-910b', memory=None)
"""

import re
from dataclasses import dataclass

from penstock.core.limits import brief

_MEMORY = r"\d+(?:\.\d+)?\s*Gi?B"
_SIZE = r"\d+(?:\.\d+)?\s*(?:[KMGTP]i?B)?"
"""What looks like a memory is never part of a kind's name."""
_GROUP = re.compile(
    rf"(?:(?P<nodes>\d+)x)?(?P<devices>\d+)(?:x(?P<kind>[A-Za-z][\w.+/]*(?:-(?!{_SIZE}$)\w[\w.+/]*)*))?"
    rf"(?:-(?P<memory>{_MEMORY}))?",
    re.IGNORECASE,
)
_LARGEST = 1_000_000
"""Nodes, and devices of a node, beyond which a number is a slip of the hand."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """What a name says; ``None`` where it says nothing."""

    nodes: int | None
    per_node: int
    kind: str | None
    memory: str | None


def parse_device_group(text: str) -> DeviceGroup | None:
    """The group a name stands for; None if it is no such name, or names no device."""
    found = _GROUP.fullmatch(brief(text))
    if found is None:
        return None
    nodes = None if found["nodes"] is None else int(found["nodes"][:9])
    group = DeviceGroup(nodes, int(found["devices"][:9]), found["kind"], found["memory"])
    return group if all(1 <= count <= _LARGEST for count in (group.nodes or 1, group.per_node)) and nodes != 0 else None
