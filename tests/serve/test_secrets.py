"""Secrets reach the jobs that ask for them and nothing else: no log, no database, no answer, no other tenant."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client, DataDir, ensure_server
from penstock.core import InputError
from penstock.wire import ForbiddenError, MissingError
from tests.control.serving import end_everything_on, until
from tests.serve.other_users import PYTHON, needs_other_users, open_folder, server_of

VALUE = "s3same-öffne-dich-4711"
KEY = "-----BEGIN KEY-----\nabcdefghijklmnop\nqrstuvwxyz012345\n-----END KEY-----\n"
SCRIPT = """
import hashlib, os, pathlib, stat, sys
key = pathlib.Path(os.environ["DEPLOY_KEY"])
print("VALUE", hashlib.sha256(os.environ["API_KEY"].encode()).hexdigest())
about = key.stat()
mode, mine = oct(stat.S_IMODE(about.st_mode)), about.st_uid == os.getuid()
print("KEY", hashlib.sha256(key.read_bytes()).hexdigest(), mode, mine)
print("the value is", os.environ["API_KEY"], "and the key", key.read_text(), flush=True)
sys.stdout.write("no line end: " + os.environ["API_KEY"])
"""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    yield path
    end_everything_on(path)


def spec(script: Path, **more: object) -> dict[str, object]:
    return {
        "command": [PYTHON if os.access(PYTHON, os.X_OK) else "python3", str(script)], "work": "1 step", "retries": 0,
        "secrets": {"API_KEY": "api", "DEPLOY_KEY": "file:deploy"}, "environment": {"working_dir": "/"}, **more,
    }  # fmt: skip


def run_with_secrets(client: Client, script: Path, **more: object) -> str:
    """The output of a job that says what it was given."""
    job = client.submit(spec(script, **more)).job.id
    until(lambda: client.job(job).state in ("finished", "failed"), "the end of the job")
    text = client.logs(job).text
    assert client.job(job).state == "finished", text
    return text


def check_output(text: str) -> None:
    assert digest(VALUE) in text
    assert f"{digest(KEY)} 0o400 True" in text
    assert "the value is *** and the key" in text
    assert "no line end: ***" in text
    for line in (VALUE, *KEY.splitlines()):
        assert line not in text


def holding(folder: Path, words: tuple[str, ...]) -> list[Path]:
    """Files in which any of the words stands; a file that goes meanwhile is told by its successor."""
    return [path for path in folder.rglob("*") if any(word.encode() in contents(path) for word in words)]


def contents(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""


def test_a_job_gets_its_secrets_and_they_are_written_nowhere_else(data_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        client.set_secret("api", VALUE)
        client.set_secret("deploy", KEY)
        check_output(run_with_secrets(client, script))
        listed = client.secrets()
        assert [secret.name for secret in listed] == ["api", "deploy"]
        said = [one.model_dump_json() for one in (*listed, *client.jobs().jobs, client.job(client.jobs().jobs[0].id))]
        said += [event.model_dump_json() for event in client.events().events]
        assert VALUE not in "".join(said)
        assert "api" in "".join(said), "its name is no secret"
    kept = data_dir / "secrets" / "default"
    assert set(holding(data_dir, (VALUE, "abcdefghijklmnop"))) == {kept / "api", kept / "deploy"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()} == {0o600}


def test_variables_that_should_have_been_secrets_are_not_shown(data_dir: Path) -> None:
    given = {"WANDB_API_KEY": "sesame-1", "db_password": "sesame-2", "OMP_NUM_THREADS": "4", "TOKENS": "12"}
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        about = {"working_dir": "/", "env": given}
        job = client.submit({"command": "true", "work": "1 step", "retries": 0, "environment": about}).job.id
        until(lambda: client.job(job).state in ("finished", "failed"), "the end of the job")
        shown = client.job(job).spec["environment"]["env"]
        assert shown == {"WANDB_API_KEY": "***", "db_password": "***", "OMP_NUM_THREADS": "4", "TOKENS": "12"}
        told = "".join(event.model_dump_json() for event in (*client.events().events, *client.events(job).events))
        assert "WANDB_API_KEY" in told
        assert "sesame" not in told


def test_a_secret_that_is_not_there_is_refused_before_anything_runs(data_dir: Path, tmp_path: Path) -> None:
    with ensure_server(data_dir, options=["--slots", "1", "--accept-shared-user"]) as admin:
        admin.set_secret("api", VALUE)
        with pytest.raises(InputError, match=r"deploy.*penstock secrets set deploy"):
            admin.submit(spec(tmp_path / "job.py"))
        assert admin.jobs().jobs == []
        address, made = DataDir(data_dir).address(), admin.make_token(name="eve", tenant="red")
        assert address is not None
        assert made.secret is not None
        with Client(address.url, made.secret) as eve:
            assert eve.secrets() == []
            with pytest.raises(ForbiddenError):
                eve.secrets(tenant="default")
            with pytest.raises(ForbiddenError):
                eve.set_secret("api", "mine", tenant="default")
            with pytest.raises(MissingError):
                eve.delete_secret("api")
            with pytest.raises(InputError, match="api"):
                eve.submit(spec(tmp_path / "job.py"))
        admin.delete_secret("api")
        assert admin.secrets() == []
        for name, value in (
            ("../up", "x"),
            ("a" * 200, "x"),
            ("empty", ""),
            ("nul", "a\0b"),
            ("half", "a\ud800"),
            ("big", "x" * 100_000),
        ):
            with pytest.raises((InputError, MissingError)) as refused:
                admin.set_secret(name, value)
            assert len(str(refused.value)) < 1000


@needs_other_users
def test_secrets_reach_jobs_that_run_as_another_user() -> None:
    with open_folder() as folder:
        script = folder / "job.py"
        script.write_text(SCRIPT)
        script.chmod(0o644)
        with server_of(folder) as admin:
            for name, value in (("api", VALUE), ("deploy", KEY)):
                admin.set_secret(name, value, tenant="red")
            check_output(run_with_secrets(admin, script, tenant="red"))
        assert holding(folder / "data-jobs", (VALUE, "abcdefghijklmnop")) == []
