"""What happens to nodes of a cluster, as the tests of a backend make it happen."""

from typing import Protocol


class NodeFaults(Protocol):
    """Done to a node by its engine's own means; :meth:`restore` undoes either."""

    def drain(self, node: str) -> None:
        """Nothing new is to be started there; what runs goes on."""
        ...

    def lose(self, node: str) -> None:
        """The engine hears nothing of it any more, as when its power is cut."""
        ...

    def restore(self, node: str) -> None: ...
