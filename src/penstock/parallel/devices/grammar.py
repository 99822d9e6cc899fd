"""Short names and files of device meshes: "4x8xA100-80GB", "8xV100-32GB", ``site.yaml``.

A name carries no links: those typical of machines sold with the device are assumed. A file says what is really there.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.core import ClusterError, UnitError, UnknownNameError, parse_bytes, parse_device_group
from penstock.network import fabric_of
from penstock.parallel.devices.chip_mesh import USABLE, ChipMesh
from penstock.predict import DEVICES, Chip, device_named

_TRY = 'Try "8xV100-32GB", "4x8xA100-80GB" or a YAML or JSON file'


def mesh_named(text: str) -> ChipMesh:
    """A cluster from "4x8xA100-80GB" (nodes, devices per node, kind), "8xV100-32GB" (one node), or a file.

    >>> mesh_named("2x8xH200").devices
    16
    """
    if text.endswith((".yaml", ".yml", ".json")):
        return mesh_from_file(Path(text))
    found = parse_device_group(text)
    if found is None or found.kind is None:
        allowed = "[NODESx]DEVICESxKIND[-MEMORY], both numbers from 1 to 1,000,000"
        raise ClusterError(f"{text!r} is not a cluster to plan for", allowed, _TRY)
    chip = _chip(found.kind, found.memory)
    return ChipMesh(
        chip=chip,
        nodes=found.nodes or 1,
        per_node=found.per_node,
        memory_bytes=USABLE * chip.memory_bytes,
        fabric=fabric_of(chip.link),
    )


def _chip(kind: str, memory: str | None) -> Chip:
    """The device of that kind, with the memory the name gives it."""
    if memory is None:
        return device_named(kind)
    whole = f"{kind}-{memory}".lower()
    if whole in DEVICES:
        return DEVICES[whole]
    return replace(device_named(kind), memory_bytes=float(parse_bytes(memory)))


def mesh_from_file(path: Path) -> ChipMesh:
    """A cluster from a YAML or JSON file.

    ``nodes``, ``devices_per_node``, ``device`` (a name), and if they differ from what is typical: ``memory`` ("80GB"),
    ``links`` with ``device`` and ``network`` in bytes per second ("300GB").
    """
    given = _read(path)
    unknown = set(given) - {"nodes", "devices_per_node", "device", "memory", "links"}
    if unknown:
        raise UnknownNameError.of(
            f"field of {path}", sorted(unknown)[0], ("nodes", "devices_per_node", "device", "memory", "links")
        )
    base = mesh_named(
        f"{_count(path, given, 'nodes', 1)}x{_count(path, given, 'devices_per_node')}x{_name(path, given)}"
    )
    memory = _bytes(path, given, "memory") or base.chip.memory_bytes
    links = given.get("links") or {}
    if not isinstance(links, Mapping):
        raise ClusterError(f"{path}: links is {links!r}", "a mapping with device and network")
    return replace(
        base, chip=replace(base.chip, memory_bytes=memory), memory_bytes=USABLE * memory,
        fabric=base.fabric.with_rates(
            f"links from {path.name}", inside=_bytes(path, links, "device"), between=_bytes(path, links, "network")
        ),
    )  # fmt: skip


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ClusterError(f"cannot read {path}: {problem.strerror}", "a YAML or JSON file", _TRY) from problem
    given = _parsed(path, text)
    if not isinstance(given, Mapping):
        raise ClusterError(f"{path} holds a {type(given).__name__}", "fields like nodes, devices_per_node and device")
    return given


def _parsed(path: Path, text: str) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except ValueError as problem:
            raise ClusterError(f"{path} is not JSON: {problem}", "an object") from problem
    try:
        import yaml
    except ImportError:
        raise ClusterError(
            f"{path} is YAML, and pyyaml is not installed", "a JSON file", "pip install pyyaml"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ClusterError(f"{path} is not YAML: {problem}", "a mapping") from problem


def _count(path: Path, given: Mapping[str, Any], field: str, default: int = 0) -> int:
    value = given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ClusterError(f"{path}: {field} is {value!r}", "a whole number of at least 1")
    return value


def _name(path: Path, given: Mapping[str, Any]) -> str:
    name = given.get("device")
    if not isinstance(name, str) or not name:
        raise ClusterError(f"{path}: device is {name!r}", f"one of {', '.join(sorted(DEVICES))}")
    return device_named(name).name.upper() if name.lower() in DEVICES else name


def _bytes(path: Path, given: Mapping[str, Any], field: str) -> float | None:
    value = given.get(field)
    if value is None:
        return None
    try:
        return float(parse_bytes(str(value).removesuffix("/s")))
    except UnitError as problem:
        raise ClusterError(f"{path}: {field} is {value!r}", 'a size like "300GB"') from problem
