"""What a command loads before it does its work: seconds depend on the machine, lists of modules do not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli.verbs import VERBS
from penstock.simulate import Profiles, generate, write_trace
from tests.tools.commandline import penstock

HEAVY = {"numba", "llvmlite", "torch", "sqlalchemy", "alembic", "fastapi", "uvicorn", "nicegui", "scipy", "sklearn"}
_PROGRAM = """
import sys
from penstock.cli import main
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def loaded(*words: str, cwd: Path) -> set[str]:
    """The top-level packages in memory when the command is done."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_help_loads_no_room(tmp_path: Path) -> None:
    found = loaded("--help", cwd=tmp_path)
    assert not found & (HEAVY | {"numpy", "httpx", "yaml"})


def test_help_of_a_verb_loads_no_scheduler(tmp_path: Path) -> None:
    assert not loaded("simulate", "--help", cwd=tmp_path) & (HEAVY | {"numpy", "httpx", "yaml"})


def test_a_small_simulation_is_over_before_numba_is_loaded(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.csv", generate(10, seed=1, profiles=Profiles.builtin(), mean_interval_s=600))
    assert not loaded("simulate", "trace.csv", "--policy", "deadline,fifo", cwd=tmp_path) & HEAVY


def test_the_client_loads_no_server(tmp_path: Path) -> None:
    program = "import sys, penstock.client; penstock.client.Client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & (HEAVY | {"numpy", "yaml"})


def test_a_verb_that_talks_to_a_server_loads_no_general_http_library(tmp_path: Path) -> None:
    program = """
import contextlib, sys
from penstock.cli.connect import connect
from penstock.core import PenstockError
with contextlib.suppress(PenstockError):
    connect().ready()
print(*sys.modules)
"""
    nobody = {**os.environ, "PENSTOCK_SERVER": "http://127.0.0.1:9", "PENSTOCK_TOKEN": "token"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=nobody, capture_output=True, text=True, check=True
    )
    assert "penstock.client.transport" in done.stdout.split()
    assert not {"click", "httpx", "pygments", "requests", "urllib3"} & set(done.stdout.split())


def test_every_command_of_one_process_holds_every_verb_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    usual = typer.Typer.__call__

    def counting(self: typer.Typer, *given: Any, **options: Any) -> Any:
        held.append(len(self.registered_commands) + len(self.registered_groups))
        return usual(self, *given, **options)

    monkeypatch.setattr(typer.Typer, "__call__", counting)
    for _ in range(3):
        assert penstock("policies").returncode == 0
    assert held == [len(VERBS)] * 3


@pytest.mark.parametrize("name", VERBS)
def test_the_line_about_a_verb_is_the_beginning_of_its_description(name: str) -> None:
    verb = VERBS[name].load()
    described = verb.info.help if isinstance(verb, typer.Typer) else " ".join((verb.__doc__ or "").split())
    assert str(described).startswith(VERBS[name].summary)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("word", ["policies", "--version"])
def test_output_that_cannot_be_written_is_one_sentence(word: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", word], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "penstock: the output cannot be written: No space left on device\n")
