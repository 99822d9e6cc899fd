"""What batch jobs ask for on each node: written by the server when it looks at nodes, read by agents that submit."""

import json
from collections.abc import Sequence
from pathlib import Path

from penstock.backends.slurm.commands import SlurmError
from penstock.backends.slurm.nodes import SlurmNode
from penstock.tools import write_atomically

_OF_DEVICES = ("--gres=", "--cpus-per-task=", "--mem=")


class NodeRequests:
    """Options of ``sbatch`` by node, in a file below the state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / "slurm" / "requests.json"
        self._written: dict[str, list[str]] | None = None

    def keep(self, nodes: Sequence[SlurmNode]) -> None:
        """Nodes are like this now."""
        requests = {node.name: node.request for node in nodes}
        if requests != self._written:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._file, json.dumps(requests), mode=0o600)
            self._written = requests

    def of(self, node: str, *, device: bool = True) -> list[str]:
        """What to ask for on a node, with one of its devices or with a core alone; one that left the partition is
        refused."""
        found: list[str] | None = json.loads(self._file.read_text()).get(node)
        if found is None:
            raise SlurmError(f"node {node} is not in the partition", passing=False)
        return found if device else [word for word in found if not word.startswith(_OF_DEVICES)]
