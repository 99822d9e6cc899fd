"""Children that crash, hang, fill the disk with nonsense or cannot be started: the server gets a sentence, once."""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.predict import PredictionCache, PredictionRequest
from penstock.predict import prediction_cache as module
from penstock.tools import UnixUser
from tests.control.serving import until
from tests.serve.other_users import USERS, needs_other_users, open_folder

HOOK = "def penstock_model(batch): ...\n"
SCALING = {"counts": [1, 2], "rates": [4.0, 7.0], "doubts": [0.25, 0.5]}


def request(folder: Path, text: str = HOOK, **changes: object) -> PredictionRequest:
    script = folder / "train.py"
    script.write_text(text)
    asked = {
        "fingerprint": "job", "script": str(script), "batch": 8, "kind": "nvidia.com/gpu", "counts": (1, 2),
        "profiles": str(folder / "profiles"),
    }  # fmt: skip
    return PredictionRequest(**(asked | changes))  # type: ignore[arg-type]


def interpreter(folder: Path, body: str) -> str:
    """A program in place of Python: it is called with ``-m MODULE QUESTION PARENT``."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho x >> {folder}/started\n{body}\n")
    path.chmod(0o755)
    return str(path)


def starts(folder: Path) -> int:
    return (folder / "started").read_text().count("x") if (folder / "started").exists() else 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("kill -9 $$", "status -9"),
        ("exit 7", "status 7"),
        ("echo Traceback >&2; echo the last words >&2; exit 1", "the last words"),
        ("printf '\\377\\376 what' >&2; exit 1", "what"),
        ("echo '{'", "status 0"),
        ("echo '[1, 2]'", "status 0"),
        ("echo '{\"counts\": 5}'", "status 0"),
        ('echo \'{"counts": [1], "rates": [-1], "doubts": []}\'', "status 0"),
    ],
)
def test_what_a_child_does_not_answer_is_said_once(tmp_path: Path, body: str, said: str) -> None:
    cache, asked = PredictionCache(tmp_path / "cache"), request(tmp_path)
    python = interpreter(tmp_path, body)
    first, second = (cache.ask(asked, python=python) for _ in range(2))
    assert first.scaling is None
    assert said in first.reason
    assert second == first
    assert starts(tmp_path) == 1, "a question that failed is not asked again"
    assert cache.known("job", "nvidia.com/gpu") is None


def test_a_child_that_is_not_done_in_time_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, communicate = tmp_path / "own", subprocess.Popen.communicate

    def after_its_start(child: Any, *words: Any, **options: Any) -> Any:
        until(own.exists, "what the child starts")
        return communicate(child, *words, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", after_its_start)
    started = f"sleep 600 & echo $! > {own}.partial; mv {own}.partial {own}; wait"
    cache, asked = PredictionCache(tmp_path / "cache", limit_s=0.1), request(tmp_path)
    reply = cache.ask(asked, python=interpreter(tmp_path, started))
    assert "not done after 0.1 s" in reply.reason
    assert cache.ask(asked, python="unused") == reply
    until(lambda: gone(int(own.read_text())), "the end of what the child started")


def gone(process: int) -> bool:
    """An ended process is a zombie until its parent has waited for it."""
    return not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    reply = PredictionCache(tmp_path / "cache").ask(request(tmp_path), python=str(tmp_path / "no-python"))
    assert "could not be asked" in reply.reason


def test_what_another_cache_stored_is_known_until_the_question_or_a_profile_changes(tmp_path: Path) -> None:
    asked = request(tmp_path)
    python = interpreter(tmp_path, f"echo '{json.dumps(SCALING)}'")
    reply = PredictionCache(tmp_path / "cache").ask(asked, python=python)
    assert reply.scaling is not None
    assert (reply.scaling.counts, reply.scaling.rates, reply.scaling.doubts) == ((1, 2), (4.0, 7.0), (0.25, 0.5))
    later = PredictionCache(tmp_path / "cache")
    assert later.known("job", "nvidia.com/gpu") == reply.scaling
    assert later.ask(asked, python=python) == reply
    assert starts(tmp_path) == 1
    later.ask(request(tmp_path, batch=16), python=python)
    assert starts(tmp_path) == 2
    profile = tmp_path / "profiles" / "h200" / "profile.json"
    profile.parent.mkdir(parents=True)
    profile.write_text("{}")
    (file,) = (tmp_path / "cache").rglob("*.json")
    os.utime(profile, (file.stat().st_mtime + 10,) * 2)
    later.ask(asked, python=python)
    assert starts(tmp_path) == 3, "the device was measured again since"


def test_a_rush_of_scripts_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TURN_S", 0.05)
    cache = PredictionCache(tmp_path / "cache")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = threading.Thread(
        target=cache.ask, args=(request(tmp_path),), kwargs={"python": interpreter(tmp_path, f"read line < {gate}")}
    )
    slow.start()
    with gate.open("w") as opened:  # opens once the child reads: it is being looked at
        crowded = cache.ask(request(tmp_path, fingerprint="other"), python="unused")
        opened.write("go on\n")
    slow.join()
    assert "too many scripts" in crowded.reason
    assert starts(tmp_path) == 1


def test_the_child_sees_the_jobs_environment_and_no_gpu(tmp_path: Path) -> None:
    python = interpreter(tmp_path, f"echo $OURS/$CUDA_VISIBLE_DEVICES/$OMP_NUM_THREADS/$PWD > {tmp_path}/seen")
    (tmp_path / "elsewhere").mkdir()
    asked = request(tmp_path, working_dir=str(tmp_path / "elsewhere"))
    PredictionCache(tmp_path / "cache").ask(asked, python=python, env={"OURS": "here"})
    assert (tmp_path / "seen").read_text().strip() == f"here//1/{tmp_path}/elsewhere"


@needs_other_users
def test_a_script_is_asked_as_its_user_who_can_read_the_profiles() -> None:
    with open_folder() as folder:
        (folder / "private" / "profiles" / "h200").mkdir(parents=True)
        (folder / "private").chmod(0o700)
        (folder / "private" / "profiles" / "h200" / "profile.json").write_text("measured")
        seen = folder / "seen"
        seen.touch()
        seen.chmod(0o666)
        read = 'sed \'s/.*"profiles": "\\([^"]*\\)".*/\\1/\''
        body = f'id -u > {seen}; cat "$(echo "$3" | {read})"/h200/profile.json >> {seen}; echo $HOME >> {seen}'
        (folder / "started").touch()
        (folder / "started").chmod(0o666)
        asked = request(folder, profiles=str(folder / "private" / "profiles"))
        (folder / "train.py").chmod(0o644)
        user = UnixUser.named(USERS[0])
        PredictionCache(folder / "private" / "cache").ask(asked, python=interpreter(folder, body), env={}, user=user)
        assert seen.read_text().split() == [str(user.uid), f"measured{user.home}"]
