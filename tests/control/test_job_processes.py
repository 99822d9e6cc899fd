"""Commands beside the workers of a job: their output, their exit code, and their end."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.backends import RunEnvironment
from penstock.client import Client
from penstock.control.platform import job_processes
from penstock.core import InputError
from penstock.wire import ConflictError, MissingError, TerminalSize
from tests.control.build import ADMIN, Platform
from tests.control.serving import Served, serving


@pytest.fixture
def served(world: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    variables = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    around = RunEnvironment(variables=variables, directory=tmp_path)
    monkeypatch.setattr(type(world.backend), "run_environment", lambda _self, _run: around, raising=False)
    with serving(world) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with served.client() as found:
        yield found


@pytest.fixture
def job(world: Platform) -> str:
    found = world.submit(work=1e6)
    world.passes(2)
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_output_comes_as_it_is_and_the_exit_code_last(client: Client, job: str, tmp_path: Path) -> None:
    said: list[str] = []
    script = "echo $GREETING; pwd; printf '\\303'; sleep 0.05; printf '\\244'; echo wrong >&2; env | wc -l; exit 5"
    assert client.execute(job, ["sh", "-c", script], said.append) == 5
    hello, place, rest = "".join(said).split("\n")[:3]
    assert (hello, place, rest) == ("hello", str(tmp_path), "\N{LATIN SMALL LETTER A WITH DIAERESIS}wrong")
    assert client.execute(job, ["sh", "-c", "kill -9 $$"], said.append) == 137
    large: list[str] = []
    assert client.execute(job, ["head", "-c", "3000000", "/dev/zero"], large.append) == 0
    assert sum(map(len, large)) == 3_000_000
    entry = client.audit(action="exec").entries[0]
    assert (entry.target, entry.result) == (f"{job}: head", "done"), "the program is on record, and not its arguments"


def test_what_cannot_be_started_is_said(client: Client, job: str) -> None:
    with pytest.raises(InputError, match="'no-such-program' cannot be started: No such file"):
        client.execute(job, ["no-such-program"], print)
    with pytest.raises(InputError, match="command"):
        client.execute(job, [], print)


def test_a_command_ends_with_its_run(world: Platform, client: Client, job: str) -> None:
    pids: list[int] = []

    def show(text: str) -> None:
        pids.append(int(text))
        world.commands.cancel(job, ADMIN)

    assert client.execute(job, ["sh", "-c", "echo $$; sleep 1000"], show) == 137
    until(lambda: not is_there(pids[0]))


def test_a_command_ends_with_whoever_asked_for_it(served: Served, job: str) -> None:
    with served.http() as http:
        request = {"command": ["sh", "-c", "echo $$; exec sleep 1000"]}
        with http.stream("POST", f"/v1/jobs/{job}/exec", json=request) as answer:
            line = next(line for line in answer.iter_lines() if line.startswith("data: "))
    pid = int(line.partition('"text": "')[2].partition("\\n")[0])
    until(lambda: not is_there(pid))


def test_a_terminal_takes_keys_and_sizes(world: Platform, client: Client, job: str) -> None:
    said, typed = [], threading.Event()

    def opened(session: str) -> None:
        client.type_keys(job, session, "hello\n")
        until(lambda: "got hello" in "".join(said))
        client.type_keys(job, session, size=TerminalSize(rows=7, columns=33))
        client.type_keys(job, session, "\x03")
        typed.set()

    waits = "while :; do sleep 0.05; done"
    script = f"trap 'stty size; exit 9' INT; tty >/dev/null && stty size; read x; echo got $x; {waits}"
    code = client.execute(
        job, ["sh", "-c", script], said.append, terminal=TerminalSize(rows=20, columns=50),
        opened=lambda session: threading.Thread(target=opened, args=(session,)).start(),
    )  # fmt: skip
    assert typed.wait(10)
    lines = "".join(said).replace("\r", "").split("\n")
    assert (code, "20 50" in lines, lines[-2][-4:]) == (9, True, "7 33")
    with pytest.raises(MissingError, match="no such session"):
        client.type_keys(job, "nothing", "x")


def test_who_may_not_and_where_it_is_not_possible(
    served: Served, world: Platform, client: Client, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.client("eve") as eve, pytest.raises(MissingError):
        eve.execute(job, ["id"], print)
    waiting = world.submit(work=10, after=[job])
    with pytest.raises(ConflictError, match="has no run that takes commands now"):
        client.execute(waiting, ["id"], print)
    monkeypatch.delattr(type(world.backend), "run_environment")
    with pytest.raises(ConflictError, match="take no commands"):
        client.execute(job, ["id"], print)
    audit = world.platform.administration.audit(ADMIN, before=None, limit=10, action="exec")
    assert [entry.result == "done" for entry in audit.entries] == [False] * 3


@pytest.mark.parametrize("leaves", ["", "; sleep 1000"], ids=["with the command", "with whoever asked for it"])
def test_what_moves_to_a_session_of_its_own_ends(served: Served, job: str, leaves: str) -> None:
    moved = "env -i setsid sh -c 'echo $$; touch moved; exec sleep 1000' &"
    words = ["sh", "-c", f"{moved} while [ ! -e moved ]; do sleep 0.02; done{leaves}"]
    with served.http() as http, http.stream("POST", f"/v1/jobs/{job}/exec", json={"command": words}) as answer:
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        if not leaves:
            assert 'data: {"code": 0}' in list(lines)
    pid = int(first.partition('"text": "')[2].partition("\\n")[0])
    until(lambda: not is_there(pid))


def test_a_command_ends_with_the_agent_of_its_run_though_nobody_reads_on(tmp_path: Path) -> None:
    agent = subprocess.Popen(["sleep", "1000"])
    around = RunEnvironment(variables={"PATH": os.environ["PATH"]}, directory=tmp_path, agent=agent.pid)
    program, order = around.side_command(["sh", "-c", "echo $$; setsid yes"], terminal=False)
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.write(order)
        command.stdin.flush()
        pid = int(command.stdout.readline())
        agent.kill()
        agent.wait()
        assert command.wait(20) == 137
    until(lambda: not is_there(pid))


def test_keys_for_a_program_that_does_not_read_wait_and_are_not_lost(
    client: Client, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_processes, "_MOST_KEYS", 50_000, raising=False)
    said: list[str] = []
    told: list[str] = []
    typed: list[int] = []

    def accepted(session: str) -> bool:
        try:
            client.type_keys(job, session, "k" * 20_000)
        except ConflictError as error:
            told.append(str(error))
            return False
        typed.append(20_000)
        return True

    def opened(session: str) -> None:
        until(lambda: "ready" in "".join(said))
        until(lambda: not accepted(session))
        client.type_keys(job, session, ".")
        (tmp_path / "go").touch()

    count = "import os; got = b''\nwhile not got.endswith(b'.'): got += os.read(0, 65536)\nprint(len(got))"
    script = f'stty raw -echo; echo ready; while [ ! -e go ]; do sleep 0.05; done; exec {sys.executable} -c "{count}"'
    code = client.execute(
        job, ["sh", "-c", script], said.append, terminal=TerminalSize(rows=20, columns=50),
        opened=lambda session: threading.Thread(target=opened, args=(session,)).start(),
    )  # fmt: skip
    assert (code, int("".join(said).split()[-1])) == (0, sum(typed) + 1)
    assert "the program in this terminal does not read: " in told[0]
