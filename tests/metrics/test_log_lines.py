"""The server's own log as JSON, from the real program."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import Client, DataDir
from penstock.control.observe.logging_setup import JsonLines, LogFormat
from penstock.core import UnknownNameError
from tests.control.serving import until


def said(message: str, *arguments: object, **more: object) -> dict[str, str]:
    record = logging.makeLogRecord(
        {"name": "penstock.test", "levelno": 30, "levelname": "WARNING", "msg": message, "args": arguments, **more}
    )
    line = JsonLines().format(record)
    assert "\n" not in line
    found: dict[str, str] = json.loads(line)
    return found


def test_a_line_has_time_level_logger_and_message() -> None:
    line = said("it took %d s", 5)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert (line["level"], line["logger"], line["message"]) == ("warning", "penstock.test", "it took 5 s")
    assert "job_id" not in line
    assert "exception" not in line


def test_the_job_is_named_where_there_is_one() -> None:
    assert said("run %s cannot be launched", "j-abcd2345.3")["job_id"] == "j-abcd2345"
    assert said("something", job_id="j-zzzz9999")["job_id"] == "j-zzzz9999"


def test_an_exception_stays_on_its_line() -> None:
    try:
        raise ValueError("what\na day")
    except ValueError:
        line = said("no", exc_info=sys.exc_info())
    assert "Traceback" in line["exception"]
    assert "ValueError: what\na day" in line["exception"]


def test_the_environment_decides_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LogFormat.named("") is LogFormat.TEXT
    monkeypatch.setenv("PENSTOCK_LOG_FORMAT", "json")
    assert LogFormat.named("") is LogFormat.JSON
    assert LogFormat.named("text") is LogFormat.TEXT
    with pytest.raises(UnknownNameError, match="Did you mean 'json'"):
        LogFormat.named("jsn")


def serve(folder: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "penstock.cli", "serve", "--data-dir", str(folder), "--slots", "1", *options]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.Popen(command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_server_logs_json_when_told_to(tmp_path: Path) -> None:
    process = serve(tmp_path, "--log-format", "json")
    try:
        until(lambda: process.poll() is not None or DataDir(tmp_path).address() is not None, "the server", 60.0)
        with Client.local(tmp_path) as client:
            client.submit({"script": "gone.py", "work": "5 steps", "environment": {"working_dir": str(tmp_path)}})
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    lines = [line for line in errors.splitlines() if not line.startswith("Penstock serves")]
    assert lines, errors
    for line in map(json.loads, lines):
        assert {"time", "level", "logger", "message"} <= line.keys()


def test_an_unknown_format_is_refused_before_anything_starts(tmp_path: Path) -> None:
    process = serve(tmp_path / "data", "--log-format", "xml")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "unknown log format 'xml'" in errors
    assert "json, text" in errors
    assert not (tmp_path / "data").exists()
