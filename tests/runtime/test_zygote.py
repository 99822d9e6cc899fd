"""The zygote's children are like fresh processes, only sooner."""

import os
from pathlib import Path

import pytest

from tests.runtime.agent import Zygote, wait_until

REPORT = """
import json, os, sys, threading
import helper
print(json.dumps({
    "argv": sys.argv, "name": __name__, "cwd": os.getcwd(), "env": os.environ.get("GREETING"), "group": os.getpgrp(),
    "pid": os.getpid(), "path": sys.path[0], "stdin": sys.stdin.read(), "helper": helper.VALUE,
}))
print("to stderr", file=sys.stderr)
"""


def fork(zygote: Zygote, key: str, folder: Path, code: str, *arguments: str, **env: str) -> None:
    (folder / "script.py").write_text(code)
    zygote.ask(
        op="fork", id=key, argv=[str(folder / "script.py"), *arguments], env=env, cwd=str(folder),
        stdout=str(folder / "out"), stderr=str(folder / "err"),
    )  # fmt: skip


def exit_of(zygote: Zygote, key: str) -> dict[str, object]:
    found: dict[str, object] = wait_until(lambda: zygote.event("exited", key), f"exit of {key}")
    return found


def test_a_child_runs_the_script_as_main_in_its_own_group(zygote: Zygote, tmp_path: Path) -> None:
    import json

    (tmp_path / "helper.py").write_text("VALUE = 42")
    fork(zygote, "report", tmp_path, REPORT, "--x", "1", GREETING="hello")
    assert exit_of(zygote, "report") == {"event": "exited", "id": "report", "code": 0, "signal": None}
    told = json.loads((tmp_path / "out").read_text())
    assert told["argv"] == [str(tmp_path / "script.py"), "--x", "1"]
    assert (told["name"], told["env"], told["cwd"], told["stdin"]) == ("__main__", "hello", str(tmp_path), "")
    assert told["group"] == told["pid"] == zygote.event("started", "report")["pid"]
    assert told["helper"] == 42
    assert (tmp_path / "err").read_text() == "to stderr\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(3)", (3, None)),
        ("raise ValueError('no')", (1, None)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", (-9, 9)),
        ("import atexit; atexit.register(lambda: print('bye'))", (0, None)),
    ],
)
def test_exits_are_reported(
    zygote: Zygote, tmp_path: Path, code: str, expected: tuple[int, int | None], request: pytest.FixtureRequest
) -> None:
    fork(zygote, request.node.name, tmp_path, code)
    found = exit_of(zygote, request.node.name)
    assert (found["code"], found["signal"]) == expected
    if "ValueError" in code:
        assert "ValueError: no" in (tmp_path / "err").read_text()
    if "atexit" in code:
        assert (tmp_path / "out").read_text() == "bye\n"


def test_a_traceback_begins_with_the_script(zygote: Zygote, tmp_path: Path) -> None:
    fork(zygote, "broken", tmp_path, "def inner():\n    raise ValueError('no')\n\ninner()\n")
    assert exit_of(zygote, "broken")["code"] == 1
    told = (tmp_path / "err").read_text()
    assert told.splitlines()[1].startswith(f'  File "{tmp_path}/script.py", line 4, in <module>')
    assert "zygote" not in told
    assert "runpy" not in told


def test_a_fork_finds_its_imports_done_and_the_zygote_has_one_thread(zygote: Zygote, tmp_path: Path) -> None:
    fork(zygote, "warm", tmp_path, "import sys; print('torch' in sys.modules); import torch; torch.ones(3).sum()")
    assert exit_of(zygote, "warm")["code"] == 0
    assert (tmp_path / "out").read_text() == "True\n"
    assert len(os.listdir(f"/proc/{zygote.process.pid}/task")) == 1


def test_children_do_not_share_random_numbers(zygote: Zygote, tmp_path: Path) -> None:
    texts = []
    for key in ("a", "b"):
        (tmp_path / key).mkdir()
        code = "import random, numpy; print(random.random(), numpy.random.rand())"
        fork(zygote, f"random-{key}", tmp_path / key, code)
        exit_of(zygote, f"random-{key}")
        texts.append((tmp_path / key / "out").read_text().split())
    assert not set(texts[0]) & set(texts[1])


def test_bad_requests_are_answered(zygote: Zygote, tmp_path: Path) -> None:
    zygote.ask(op="fork", id="empty", argv=[])
    assert "argv is empty" in wait_until(lambda: zygote.event("error", "empty"), "an answer")["message"]
    zygote.ask(op="dance", id="dance")
    assert "'fork' or 'quit'" in wait_until(lambda: zygote.event("error", "dance"), "an answer")["message"]
    fork(zygote, "after", tmp_path, "pass")
    assert exit_of(zygote, "after")["code"] == 0


AT_THE_END = """
import gc, os, sys, types
class Last:
    def __del__(self, write=os.write, frozen=gc.get_freeze_count):
        write(1, b"frozen" if frozen() > 10_000 else b"thawed")  # Python 3.12 has a few hundred of its own
sys.last_of_all = Last()
"""


@pytest.mark.parametrize(
    ("more", "said"), [("", "frozen"), ("sys.modules['triton'] = types.ModuleType('triton')", "thawed")]
)
def test_what_an_extension_counts_at_the_end_can_be_collected(
    zygote: Zygote, tmp_path: Path, more: str, said: str
) -> None:
    """Triton's bindings print pages of "leaked" objects for everything that is still frozen."""
    fork(zygote, said, tmp_path, f"{AT_THE_END}sys.modules.pop('triton', None)\n{more}\n")
    assert exit_of(zygote, said)["code"] == 0
    assert (tmp_path / "out").read_text() == said
    assert said == "frozen" or "leaked" not in (tmp_path / "err").read_text()
