"""Every operation of a real server under schemathesis: whatever is sent, nothing is a fault of ours.

``make fuzz`` does the same for longer (``FUZZ_S`` seconds) and with new random examples every time.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client, DataDir, ensure_server
from tests.control.serving import end_everything_on

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_S", "15"))
SEED = ["--generation-database", "none"] if "FUZZ_S" in os.environ else ["--generation-deterministic"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A whole server whose jobs are no processes, and which counts no requests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PENSTOCK_REQUESTS_PER_S", "100000")
    monkeypatch.setenv("PENSTOCK_BURST", "100000")
    monkeypatch.setenv("PENSTOCK_ACCEPT_SHARED_USER", "1")
    with ensure_server(tmp_path / "data", options=["--backend", "bench.null_backend:NullBackend"]) as client:
        yield client
    end_everything_on(tmp_path / "data")


@pytest.mark.long
def test_no_input_is_answered_with_a_fault(server: Client, tmp_path: Path) -> None:
    token = DataDir(tmp_path / "data").owner_token()
    there = {"command": "train", "work": "1000 steps", "best_effort": True, "environment": {"working_dir": "/"}}
    for number in range(3):
        server.submit({**there, "name": f"job-{number}"})
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--checks",
        "not_a_server_error", "--exclude-path", "/v1/events/stream",
        "--exclude-path", "/v1/tokens/{token_id}", "--header", f"Authorization: Bearer {token}",
        "--max-time", str(SECONDS), "--max-examples", "50", "--request-timeout", "20", "--no-color", "--no-shrink",
        "--warnings", "off", *SEED,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS * 3 + 120, check=False)
    log = DataDir(tmp_path / "data").log_file.read_text()
    assert "Traceback" not in log, log[-5000:]
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " generated" in done.stdout or " passed" in done.stdout, done.stdout[-2000:]
    assert server.ready()
    assert len(server.jobs().jobs) >= 3
