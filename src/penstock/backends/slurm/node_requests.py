"""What batch jobs ask for on each node: written by the server when it looks at nodes, read by agents that submit."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.backends.slurm.commands import SlurmError
from penstock.backends.slurm.nodes import SlurmNode
from penstock.tools import write_atomically

Requests = Mapping[str, list[str]]
_FOR_DEVICES, _FOR_CORES = "requests.json", "core_requests.json"


class NodeRequests:
    """Options of ``sbatch`` by node, for one of its devices or a core alone, in files below the state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "slurm"
        self._written: dict[str, Requests] = {}

    def keep(self, nodes: Sequence[SlurmNode]) -> None:
        """Nodes are like this now."""
        self._write(_FOR_DEVICES, {node.name: node.request for node in nodes})
        self._write(_FOR_CORES, {node.name: node.core_request for node in nodes})

    def of(self, node: str, *, device: bool = True) -> list[str]:
        """What to ask for on a node, with one of its devices or without; one that left the partition is refused."""
        text = (self._folder / (_FOR_DEVICES if device else _FOR_CORES)).read_text()
        found: list[str] | None = json.loads(text).get(node)
        if found is None:
            raise SlurmError(f"node {node} is not in the partition", passing=False)
        return found

    def _write(self, name: str, requests: Requests) -> None:
        if requests != self._written.get(name):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._folder / name, json.dumps(requests), mode=0o600)
            self._written[name] = requests
