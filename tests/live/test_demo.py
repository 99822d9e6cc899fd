"""The demo with its output in a file, and the command that it ends with, pasted into the shell that ran it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control.serving import end_everything_on

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.long
def test_the_demo_writes_whole_lines_and_its_last_command_works(tmp_path: Path) -> None:
    data = tmp_path / "data"
    around = {
        "HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin", "PENSTOCK_DATA_DIR": str(data),
        **{name: value for name, value in os.environ.items() if name.startswith("PYTHON")},
    }  # fmt: skip

    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=around,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=600,
        )
        said = done.stdout.decode()
        assert done.returncode == 0, said
        assert not {"\r", "\x1b"} & set(said)
        assert said.endswith("\n")
        return said

    try:
        lines = run(sys.executable, str(DEMO)).splitlines()
        assert not [line for line in lines if "open to other users" in line]
        tables = [line for line in lines if line.startswith("job ")]
        assert len(tables) == 1, "the table at the end alone, at the beginning of its line"
        *_, last = lines
        assert last.startswith("Try it yourself: ")
        assert "done after 300 steps" in run("sh", "-c", last.removeprefix("Try it yourself: "))
    finally:
        end_everything_on(tmp_path / "demo-output" / "platform")
        end_everything_on(data)
