"""The virtual machine room keeps the promises of a backend, so that what is tested on it is tested on backends."""

import time
from collections.abc import Callable

import pytest

from penstock.backends import Backend
from penstock.backends.testing import BackendContract
from penstock.core import Launch, Node, Recipe, Report
from tests.control.fake_backend import FakeBackend

LIFETIMES = {"brief": 1, "failing": 1, "endless": 10**12}


class ScriptedBackend(FakeBackend):
    """Its runs do what the name of their command says, on a clock that nobody turns."""

    def launch(self, launch: Launch) -> None:
        self.total = max(self.total, LIFETIMES[launch.command[0]])
        super().launch(launch)

    def runs(self):  # type: ignore[no-untyped-def]
        for run_id, run in self.all_runs.items():
            alone = run.launch.cpu_worker
            without_device = alone is not None and not run.launch.workers
            command = alone.command[0] if alone is not None and without_device else run.launch.command[0]
            if run.alive and command == "failing":
                self.fail(run_id, code=3)
            elif run.alive and command == "brief" and without_device:
                self.finish(run_id)
            elif run.alive and command == "brief":
                run.step = float(self.total)
        return super().runs()

    def reports(self, run_id: str, after_seq: int) -> tuple[Report, ...]:
        self.runs()
        return super().reports(run_id, after_seq)

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:  # noqa: ARG002
        return recipe


class TestFakeBackend(BackendContract):
    brief, failing, endless = ("brief",), ("failing",), ("endless",)

    @pytest.fixture
    def opened(self) -> Callable[[], Backend]:
        nodes = (Node(name="a", device_count=2), Node(name="b", device_count=2))
        room = ScriptedBackend(time.monotonic, nodes)
        return lambda: room
