"""A job is no way to the server: not to its secrets, not to its environment, not to the runs of other tenants."""

import contextlib
import json
import os
import pwd
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.client import Client, DataDir, ensure_server
from penstock.control import Tenancy
from penstock.core import InputError
from penstock.learn import CurveStore
from penstock.serve.config import Config
from penstock.serve.isolation import tenancy_of, tenant_users
from penstock.wire import ForbiddenError, TerminalSize
from tests.control.build import platform
from tests.control.serving import end_everything_on, until
from tests.serve.other_users import (
    PYTHON,
    USERS,
    needs_other_users,
    open_folder,
    server_of,
    use_reachable_python,
    user_client,
)

ATTACK = """
import json, os, pathlib, socket, sys
home, runs, server, victim = sys.argv[1:]
found = []
def tried(what, attempt):
    try:
        attempt()
    except OSError as error:
        return
    found.append(what)
def ask():
    line = socket.socket(socket.AF_UNIX)
    line.connect(f"{victim}/agent.sock")
    line.sendall(b'{"type": "stop", "grace_s": 0}\\n')
def call():
    socket.socket(socket.AF_UNIX).connect(f"{victim}/workers.sock")
for name in ("owner.token", "web.secret", "penstock.db", "server.log", "curves.db", "penstock.toml"):
    tried(name, lambda: open(f"{home}/{name}").read())
tried("home", lambda: os.listdir(home))
tried("runs", lambda: os.listdir(runs))
tried("own run's orders", lambda: open(os.environ["PENSTOCK_RUN_DIR"] + "/launch.json").read())
tried("own run's journal", lambda: open(os.environ["PENSTOCK_RUN_DIR"] + "/reports.jsonl", "ab"))
for name in ("launch.json", "merged.log", "reports.jsonl", "secret", "workers/w0/output.log", "job/progress"):
    tried(f"victim's {name}", lambda: open(f"{victim}/{name}").read())
tried("victim's folder", lambda: os.listdir(f"{victim}/job"))
tried("victim's checkpoints", lambda: os.listdir(os.environ["VICTIM_CHECKPOINTS"]))
tried("victim's agent", ask)
tried("victim's line", call)
tried("server's memory", lambda: open(f"/proc/{server}/mem", "r+b"))
tried("server's environment", lambda: open(f"/proc/{server}/environ").read())
tried("server's end", lambda: os.kill(int(server), 0))
tried("root", lambda: os.setuid(0))
others = [pid for pid in os.listdir("/proc") if pid.isdigit() and os.stat(f"/proc/{pid}").st_uid != os.getuid()]
print("SEEN", json.dumps(others))
print("FOUND", json.dumps(found))
print("ENV", json.dumps(dict(os.environ)))
print("WHO", os.getuid(), os.geteuid(), os.getgroups(), flush=True)
(pathlib.Path(os.environ["PENSTOCK_CHECKPOINT_DIR"]) / "state").write_text("saved")
with open(os.environ["PENSTOCK_PROGRESS"], "w") as progress:
    progress.write("step=7 total=10")
"""
WAIT = "import time, os; print('here', os.getuid(), flush=True); time.sleep(300)"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


def _spec(*command: str, tenant: str, **env: str) -> dict[str, object]:
    return {
        "command": [PYTHON, *command], "work": "10 steps", "retries": 0, "tenant": tenant, "devices": 1,
        "environment": {"working_dir": "/", "env": env},
    }  # fmt: skip


def _said(client: Client, job_id: str, word: str) -> str:
    text = client.logs(job_id).text
    line = next((line for line in text.splitlines() if f"] {word} " in line), "")
    return line.partition(f"{word} ")[2]


@needs_other_users
def test_a_job_reaches_what_is_its_own_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the server's")
    monkeypatch.setenv("HF_TOKEN", "the server's")
    monkeypatch.setenv("SITE_CODE", "for jobs")
    attack = folder / "attack.py"
    attack.write_text(ATTACK)
    attack.chmod(0o644)
    with server_of(folder, 'pass_environment = ["SITE_*"]') as admin:
        red, blue = (user_client(admin, folder, tenant) for tenant in ("red", "blue"))
        address = DataDir(folder / "data").address()
        assert address is not None
        victim = blue.submit(_spec("-c", WAIT, tenant="blue")).job.id
        until(lambda: "here" in blue.logs(victim).text, "the victim")
        jobs = folder / "data-jobs"
        arguments = (str(attack), str(folder / "data"), str(jobs / "runs"), str(address.pid), f"{jobs}/runs/{victim}.1")
        saved = str(jobs / "checkpoints" / victim)
        job = red.submit(_spec(*arguments, tenant="red", VICTIM_CHECKPOINTS=saved)).job.id
        until(lambda: red.job(job).state in ("finished", "failed"), "the attack")
        assert _said(red, job, "FOUND") == "[]", red.logs(job).text
        agent_log = (jobs / "runs" / f"{victim}.1" / "agent.log").read_text()
        if "no view of its own" not in agent_log:
            assert _said(red, job, "SEEN") == "[]", "command lines of others are none of its business"
        around = json.loads(_said(red, job, "ENV"))
        assert "AWS_SECRET_ACCESS_KEY" not in around
        assert "HF_TOKEN" not in around
        assert around["SITE_CODE"] == "for jobs"
        assert around["USER"] == USERS[0]
        assert around["HOME"] != os.environ.get("HOME")
        who = _said(red, job, "WHO").split()
        assert who[0] == who[1] != "0"
        assert "0" not in "".join(who[2:]).strip("[]").split(","), "root's groups"
        assert red.job(job).state == "finished"
        assert (jobs / "checkpoints" / job / "state").read_text() == "saved"
        assert blue.job(victim).state == "running"
        thief = red.submit(_spec("-c", "pass", tenant="red") | {"checkpoint": {"dir": saved}}).job.id
        until(lambda: red.job(thief).state in ("finished", "failed"), "the thief")
        assert Path(saved).stat().st_uid == pwd.getpwnam(USERS[1]).pw_uid, "a job named another's checkpoints its own"
        red.close()
        blue.close()


LOOK = """
import json, os
seen = [pid for pid in os.listdir("/proc") if pid.isdigit()]
others = [pid for pid in seen if os.stat(f"/proc/{pid}").st_uid != os.getuid()]
rights = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("NoNewPrivs", "CapEff"))]
view = os.readlink("/proc/self/ns/mnt")
print(json.dumps([os.getuid(), os.getgroups(), others, rights, view, os.getcwd(), os.isatty(0)]), flush=True)
"""


@needs_other_users
def test_commands_run_as_the_tenants_user_in_the_runs_own_view_and_end_with_it(folder: Path) -> None:
    with server_of(folder) as admin, user_client(admin, folder, "red") as red:
        job = red.submit(_spec("-c", f"{LOOK}\nimport time; time.sleep(300)", tenant="red")).job.id
        until(lambda: "]" in red.logs(job).text, "its worker")
        worker = json.loads(red.logs(job).text.partition("] ")[2].splitlines()[0])
        said: list[str] = []
        assert red.execute(job, [PYTHON, "-c", LOOK], said.append) == 0
        assert json.loads("".join(said)) == worker, "a command is and sees what a worker is and sees"
        assert worker[0] == pwd.getpwnam(USERS[0]).pw_uid
        said.clear()
        assert red.execute(job, [PYTHON, "-c", LOOK], said.append, terminal=TerminalSize(rows=20, columns=500)) == 0
        assert json.loads("".join(said)) == [*worker[:-1], True]
        with pytest.raises(InputError, match=r"'no-such-program' cannot be started: (No such|Perm)"):
            red.execute(job, ["no-such-program"], said.append)
        mark = f"{os.getpid()}.5"
        escape = f"env -i setsid sleep 1000{mark} & sleep 1000{mark}"
        ended: list[int] = []
        running = threading.Thread(target=lambda: ended.append(red.execute(job, ["sh", "-c", escape], said.append)))
        running.start()
        until(lambda: len(_running(mark)) >= 3, "the command and what moved away from it")
        with user_client(admin, folder, "red") as other:
            other.cancel(job)
        until(lambda: not _running(mark), "the end of both with their run")
        running.join(20)
        assert ended == [137]


def _running(mark: str) -> list[int]:
    return [each.pid for each in psutil.process_iter(["cmdline"]) if mark in " ".join(each.info["cmdline"] or ())]


ELASTIC = """
import os
import torch
import penstock.elastic as elastic
run = elastic.init(checkpoint_steps=5)
model = run.wrap(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run.attach(optimizer=optimizer)
data = [(torch.ones(2), torch.ones(1)) for _ in range(80)]
for step in run.steps(data, global_batch=4, epochs=1):
    with step as (x, y):
        step.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
print("WHO", os.getuid(), flush=True)
"""


@needs_other_users
def test_an_elastic_job_trains_saves_and_talks_to_its_agent_as_its_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_reachable_python(monkeypatch, folder)
    (folder / "train.py").write_text(ELASTIC)
    (folder / "train.py").chmod(0o644)
    spec = {
        "script": "train.py", "work": "20 steps", "devices": 2, "retries": 0, "tenant": "red",
        "environment": {"working_dir": str(folder)},
    }  # fmt: skip
    with server_of(folder) as admin:
        job = admin.submit(spec).job.id
        until(lambda: admin.job(job).state in ("finished", "failed"), "the end of training", 120.0)
        assert admin.job(job).state == "finished", admin.logs(job).text
        user = pwd.getpwnam(USERS[0])
        assert _said(admin, job, "WHO").split()[0] == str(user.pw_uid)
        progress = admin.job(job).progress
        assert progress is not None
        assert progress.step == 20, "it talks to its agent"
        saved = list((folder / "data-jobs" / "checkpoints" / job).glob("step-*.json"))
        assert saved
        assert {path.stat().st_uid for path in saved} == {user.pw_uid}


@needs_other_users
def test_a_tenant_without_a_user_is_refused_and_told_what_to_add(folder: Path) -> None:
    with server_of(folder) as admin:
        with pytest.raises(InputError, match=r"green.*run_as"):
            admin.submit(_spec("-c", "pass", tenant="green"))
        with pytest.raises(InputError, match=r"green.*run_as"):
            admin.make_token(name="gil", tenant="green")


@needs_other_users
def test_jobs_that_cannot_reach_their_directory_are_refused_at_the_start(folder: Path) -> None:
    folder.chmod(0o700)
    with pytest.raises(Exception, match=r"games cannot enter|daemon cannot enter"), server_of(folder):
        pass


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    yield path
    end_everything_on(path)


def test_one_user_is_one_tenant_unless_sharing_is_accepted(data_dir: Path) -> None:
    with ensure_server(data_dir, options=["--slots", "1"]) as admin:
        admin.make_token(name="ada", tenant="default")
        with pytest.raises(
            ForbiddenError, match=r"not be isolated from default \(the owner's token\).*run_as.*accept_shared_user"
        ):
            admin.make_token(name="eve", tenant="blue")
        with pytest.raises(ForbiddenError, match="not be isolated from default"):
            admin.submit(_spec("-c", "pass", tenant="defualt"))
        assert admin.submit(_spec("-c", "pass", tenant="default")).job.tenant == "default"
    assert "jobs run as the server's own user" in (data_dir / "server.log").read_text()


VOLUME = {"name": "shared", "mountPath": "/shared", "persistentVolumeClaim": {"claimName": "shared"}}


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"backend": "slurm"}, r"from default \(the owner's token\).*run_as.*accept_shared_user"),
        ({"backend": "kubernetes", "backend_settings": {"volumes": [VOLUME]}}, "the volumes shared readOnly"),
        ({"backend": "kubernetes", "backend_settings": {"volumes": [VOLUME | {"readOnly": True}]}}, ""),
        ({"backend": "kubernetes"}, ""),
        ({"backend": "slurm", "accept_shared_user": True}, ""),
        ({"backend": "company.cluster:make"}, ""),
    ],
)
def test_an_engine_without_isolation_is_for_one_tenant(tmp_path: Path, options: dict[str, Any], refusal: str) -> None:
    config = Config(data_dir=tmp_path, **options)
    with platform(tmp_path) as world:
        tenancy = tenancy_of(config, world.journal, tenant_users(config))
        tenancy.admit("default")
        with pytest.raises(ForbiddenError, match=refusal) if refusal else contextlib.nullcontext():
            tenancy.admit("blue")


def test_a_job_that_waits_for_devices_stands_in_the_way_as_one_that_runs(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    with platform(tmp_path, policy="fifo") as world:
        for _ in range(8):
            world.submit(work=1000)
        job = world.submit(tenant="red", work=5)
        assert job not in world.journal.state.engaged
        earlier = tenancy_of(config, world.journal, tenant_users(config)).in_use()
        assert list(earlier.items()) == [("default", "the owner's token"), ("red", f"job {job}")]


def test_jobs_on_slurm_run_as_the_servers_user_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tenant_users(Config(data_dir=tmp_path, backend="slurm"))
    assert "jobs run as the server's own user" in caplog.text


def test_of_two_tenants_with_one_user_the_later_is_refused_and_what_is_in_its_way_is_named() -> None:
    there = {"default": "the owner's token", "red": "token 'ada' (0123)", "blue": "job job-7"}
    tenancy = Tenancy(lambda tenant: {"default": "root"}.get(tenant, "nobody"), lambda: there)
    for tenant in ("default", "red"):
        tenancy.admit(tenant)
    for tenant in ("blue", "green"):
        with pytest.raises(ForbiddenError, match=r"not be isolated from red \(token 'ada' \(0123\)\)"):
            tenancy.admit(tenant)


def test_sharing_one_user_is_accepted_when_the_configuration_says_so(data_dir: Path) -> None:
    with ensure_server(data_dir, options=["--slots", "1", "--accept-shared-user"]) as admin:
        for tenant in ("red", "blue"):
            admin.make_token(name=tenant, tenant=tenant)
        assert {token.tenant for token in admin.tokens()} >= {"red", "blue"}


def test_a_home_that_was_open_to_others_is_closed(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    data_dir.chmod(0o755)
    (data_dir / "penstock.toml").write_text("slots = 1\n")
    (data_dir / "secrets" / "default").mkdir(parents=True)
    (data_dir / "secrets" / "default" / "old").write_text("value")
    with ensure_server(data_dir, options=["--slots", "1"]) as admin:
        admin.set_secret("new", "value", tenant="other")
        CurveStore(data_dir / "curves.db")
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        private = [*data_dir.glob("*.*"), *(data_dir / "secrets").rglob("*"), data_dir / "secrets"]
        assert {"penstock.db", "penstock.db-wal", "curves.db", "penstock.toml", "old", "new", "secrets"} <= {
            path.name for path in private
        }
        assert {path.name for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()
