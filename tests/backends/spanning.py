"""A backend whose workers live on other machines, which this one plays: loopback, or one network namespace for each."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.backends.agent.parts import PartEngine
from penstock.backends.runs.backend import AgentBackend, AgentSettings
from penstock.core import AgentAddress, DeviceSlot, Node, Recipe

FACTORY = "penstock.backends.testing.process_parts:ProcessParts"


class SpanningBackend(AgentBackend):
    """Nodes of four slots each; the engine is :class:`~penstock.backends.testing.process_parts.ProcessParts`."""

    name = "spanning"

    def __init__(
        self,
        state_dir: Path,
        nodes: Sequence[str] = ("left", "right"),
        *,
        host: str = "127.0.0.1",
        prefixes: Mapping[str, Sequence[str]] | None = None,
        start_limit_s: float | None = 60.0,
    ) -> None:
        engine = PartEngine(factory=FACTORY, settings={"prefixes": dict(prefixes or {})}, start_limit_s=start_limit_s)
        super().__init__(state_dir, AgentSettings(listen=AgentAddress(host=host), engine=engine))
        self._nodes = tuple(Node(name=name, device_count=4, kind="cpu") for name in nodes)

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def unusable(self) -> Mapping[DeviceSlot, str]:
        return {}

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:  # noqa: ARG002
        return recipe
