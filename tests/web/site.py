"""A real server with a dashboard, on a port of its own that survives a restart."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.client import Client, DataDir, ensure_server
from penstock.learn import CurveStore, scoped_fingerprint
from penstock.spec import parse_job
from penstock.wire import ConflictError
from tests.live.site import PATIENCE_S, Site, until
from tests.tools.ports import free_port

TRAIN = """
import sys, time
steps, pause = int(sys.argv[1]), float(sys.argv[2])
for step in range(1, steps + 1):
    time.sleep(pause)
    print(f"penstock: step={step} total={steps} loss={1 / step:.3f}", flush=True)
print("the <end>")
"""


class WebSite(Site):
    """A site whose server is asked by a browser. ``people`` holds a token for each of three persons."""

    def __init__(self, folder: Path, slots: int = 4) -> None:
        super().__init__(folder, slots)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.people: dict[str, str] = {}
        (folder / "train.py").write_text(TRAIN)

    def start(self) -> Client:
        """A server that does not know that it is being tested."""
        self._hang_up()
        told = os.environ.pop("PYTEST_CURRENT_TEST", None)
        try:
            options = ["--slots", str(self._slots), "--port", str(self.port), "--accept-shared-user"]
            self._client = ensure_server(self.data, options=options, within_s=PATIENCE_S)
        finally:
            if told is not None:
                os.environ["PYTEST_CURRENT_TEST"] = told
        return self._client

    def open(self) -> None:
        client = self.start()
        self.people = {
            "admin": DataDir(self.data).owner_token() or "",
            "ada": client.make_token(name="ada", tenant="blue").secret or "",
            "eve": client.make_token(name="eve", tenant="red").secret or "",
        }

    def client(self, who: str) -> Client:
        return Client(self.url, self.people[who])

    def spec(self, steps: int, pause_s: float = 0.05, **keys: Any) -> dict[str, Any]:
        goal = {} if {"deadline", "goal"} & keys.keys() else {"best_effort": True}
        return {
            "name": "web-job", "script": "train.py", "args": [str(steps), str(pause_s)], "work": f"{steps} steps",
            "devices": "1..", "environment": {"working_dir": str(self.folder)}, **goal, **keys,
        }  # fmt: skip

    def submit(self, who: str, *states: str, **spec: Any) -> str:
        """A job of somebody's, once it has come to one of these states."""
        with self.client(who) as client:
            job = client.submit(self.spec(**spec)).job.id
            until(lambda: client.job(job).state in (states or ("running",)), f"{job} to be {states or 'running'}")
        return job

    def teach(self, spec: dict[str, Any], rates: dict[int, float], tenant: str) -> None:
        """As if the tenant's job had been measured before: steps per second by number of devices."""
        store = CurveStore(self.data / "curves.db")
        for count, rate in rates.items():
            store.observe(scoped_fingerprint(parse_job(spec).fingerprint(), tenant), "cpu", count, rate, 60.0)

    def wait(self, condition: Callable[[Client], Any], what: str, within_s: float = 60.0) -> Any:
        return until(lambda: self.ask(condition), what, within_s)

    def stop_server_only(self) -> None:
        """As a person would; what it started goes on."""
        address = DataDir(self.data).address()
        assert address is not None
        os.kill(address.pid, signal.SIGTERM)
        until(lambda: not DataDir(self.data).is_served(), "the server to end by itself", 30.0)

    def end_jobs(self) -> None:
        """Nothing is left running for the next test."""
        for job_id, state in self.states().items():
            if state not in ("finished", "failed", "declined", "cancelled"):
                with contextlib.suppress(ConflictError):  # it may end by itself in this very moment
                    self.ask(lambda client, job_id=job_id: client.cancel(job_id))
        until(lambda: not self.workers(), "every worker to end", 60.0)
