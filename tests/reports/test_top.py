"""`penstock top` and `penstock report` as a person meets them: a real program, a real server, a real terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core import Usage
from tests.control.build import platform
from tests.control.serving import Served, serving
from tests.tools import commandline

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with (
        platform(tmp_path, forecast_every_s=0.0) as world,
        serving(world, requests_per_s=1e6, burst=10**6) as running,
    ):
        yield running


def environment(served: Served, who: str = "admin") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    more = {"PENSTOCK_SERVER": served.url, "PENSTOCK_TOKEN": served.secrets[who], "COLUMNS": "150", "TERM": "xterm"}
    return {**kept, **more}


def penstock(
    served: Served, *arguments: str, who: str = "admin", cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in environment(served, who).items() if name.startswith("PENSTOCK_")}
    return commandline.penstock(*arguments, cwd=cwd, env=env)


def busy(served: Served, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """One promised job, one without a promise, and one that waits."""
    world = served.world
    monkeypatch.setattr(world.backend, "usage", lambda _: Usage(device_percent=75.0, power_w=600.0))
    promised = world.submit(name="night-run", work=80, within=50)
    loose = world.submit(name="tinkering", work=100_000)
    world.passes(2)
    waiting = world.submit(name="colossus", work=100, at_least=4)
    world.passes(3)
    world.forecasts.refresh()
    served.world.readings.look()
    return promised, loose, waiting


def test_one_look_shows_devices_jobs_promises_and_news(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    promised, loose, waiting = busy(served, monkeypatch)
    shown = penstock(served, "top", "--once")
    assert shown.returncode == 0, shown.stderr
    assert all(job in shown.stdout for job in (promised, loose, waiting))
    row = next(line for line in shown.stdout.splitlines() if line.startswith(promised))
    assert "night-run" in row
    assert "to spare" in row
    assert "75% busy" in shown.stdout
    assert "1.20 kW" in shown.stdout
    assert "node-0" in shown.stdout
    assert "Submitted" in shown.stdout


def test_the_same_as_json(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    promised, loose, _ = busy(served, monkeypatch)
    shown = penstock(served, "top", "--json")
    seen = json.loads(shown.stdout)
    jobs = {job["id"]: job for job in seen["jobs"]}
    assert jobs[promised]["promised"] is True
    assert jobs[promised]["forecast_at"] <= jobs[promised]["deadline"]
    assert jobs[loose]["deadline"] is None
    assert seen["held"] == sum(job["devices"] for job in seen["jobs"]) == 4
    cells = [device for node in seen["nodes"] for device in node["devices"]]
    assert {device["job_id"] for device in cells} == {promised, loose}
    assert {device["utilisation"] for device in cells} == {0.75}


def test_the_jobs_of_others_are_devices_without_a_name(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    busy(served, monkeypatch)
    seen = json.loads(penstock(served, "top", "--json", who="ada").stdout)
    assert seen["jobs"] == []
    assert seen["counts"] == {}
    assert seen["events"] == []
    assert seen["held"] == 4
    assert {device["job_id"] for node in seen["nodes"] for device in node["devices"]} == {None}


class Terminal:
    """`penstock top` in a terminal of a certain size, and what it wrote so far."""

    def __init__(self, served: Served, rows: int, columns: int) -> None:
        self._master, slave = pty.openpty()
        self.resize(rows, columns)
        kept = {name: value for name, value in environment(served).items() if name not in ("COLUMNS", "LINES")}
        kept["TERM"] = "xterm"
        command = [sys.executable, "-m", "penstock.cli", "top", "--every", "0.2"]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=kept, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self._master, keys.encode())

    def until(self, present: str, absent: str = "\0", within_s: float = 90.0) -> str:
        """The first screen with a line that begins like this and none that begins like that."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._master], [], [], 0.2)
            if ready:
                self.text += ESCAPES.sub("", os.read(self._master, 65536).decode("utf-8", "replace"))
            for screen in self.text.split("Penstock  ")[1:]:
                complete = "space hold" in screen
                if complete and re.search(rf"\n{present}", screen) and not re.search(rf"\n{absent}", screen):
                    return screen
        raise AssertionError(f"no {present!r} without {absent!r} in {self.text[-3000:]}")

    def close(self) -> int:
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._master)


def test_keys_filter_and_quit_in_a_real_terminal(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    promised, loose, waiting = busy(served, monkeypatch)
    terminal = Terminal(served, 40, 160)
    try:
        terminal.until(waiting)
        terminal.press("j")
        assert loose in terminal.until(promised, absent=waiting)
        terminal.press("p")
        terminal.until(promised, absent=loose)
        terminal.press("p")
        terminal.until(loose)
        terminal.press("j")
        terminal.until(waiting, absent=loose)
        terminal.press("q")
    finally:
        assert terminal.close() == 0


def test_it_follows_the_size_of_the_terminal(served: Served) -> None:
    for _ in range(30):
        served.world.submit(work=100_000)
    served.world.passes(2)
    terminal = Terminal(served, 50, 150)
    try:
        terminal.until(r"(?s:.*?j-){26}")
        terminal.resize(14, 150)
        terminal.press("")
        small = terminal.until(r"and \d\d more")
        assert small.count("\n") <= 14
        terminal.press("q")
    finally:
        assert terminal.close() == 0


def test_a_report_in_words_as_json_and_as_a_page(served: Served, tmp_path: Path) -> None:
    job = served.world.submit(work=100, within=500)
    served.world.passes(200)
    words = penstock(served, "report", "--since", "1h")
    assert words.returncode == 0, words.stderr
    assert "100.0% of the promises were kept" in words.stdout
    assert "promise was kept" in penstock(served, "report", job).stdout
    assert json.loads(penstock(served, "report", job, "--json").stdout)["promise"] == "kept"
    assert json.loads(penstock(served, "report", "--since", "1h", "--json").stdout)["promises"]["kept"] == 1
    written = penstock(served, "report", "--since", "1h", "--html", "week.html", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "100.0% of the promises were kept" in (tmp_path / "week.html").read_text()
    again = penstock(served, "report", "--html", "week.html", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("report", "j-nobody"), "no job 'j-nobody'"),
        (("report", "--since", "soon"), "neither a duration nor a date"),
        (("report", "--html", "week.pdf"), "ends in .html"),
        (("report", "j-x", "--html", "week.html"), "Leave JOB out"),
        (("top", "--every", "0"), "0.2"),
    ],
)
def test_bad_input_is_explained(served: Served, arguments: tuple[str, ...], expected: str) -> None:
    done = penstock(served, *arguments)
    assert done.returncode == 2, done.stdout
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
