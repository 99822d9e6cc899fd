"""A job whose Python has no PyTorch says which extra brings it, wherever a user looks."""

import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.submission.example import EXAMPLES
from penstock.client import Client, ensure_server
from penstock.core import CPU_BUILD, install_command
from tests.control.serving import end_everything_on, until
from tests.live.site import OVER
from tests.serve.other_users import (
    PYTHON,
    USERS,
    needs_other_users,
    open_folder,
    reachable_packages,
    server_of,
    use_reachable_python,
)
from tests.tools.commandline import penstock

HIDDEN = """
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refusal())
"""


def _failed(client: Client, **more: object) -> str:
    job = client.submit({"work": "3 steps", "retries": 0, "devices": 1, "profile": "never", **more}).job.id
    until(lambda: client.job(job).state in OVER, f"the end of {job}", 120.0)
    assert client.job(job).state == "failed"
    return job


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a server whose Python does not find PyTorch."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDDEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    yield tmp_path / "data"
    end_everything_on(tmp_path / "data")


def test_a_job_without_pytorch_names_the_extra_and_the_cpu_build(data_dir: Path, tmp_path: Path) -> None:
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        job = _failed(client, script=str(EXAMPLES / "gpt.py"), environment={"working_dir": str(tmp_path)})
        install = (
            f"PyTorch is not installed for {sys.executable}: {install_command('runtime', f'{sys.executable} -m pip')}"
        )
        assert f"penstock: {install} ({CPU_BUILD})\n" in client.logs(job).text
        assert client.job(job).reason.startswith(f"penstock: {install}")
    env = {"PENSTOCK_DATA_DIR": str(data_dir)}
    for verb in ("doctor", "show"):
        said = penstock(verb, job, cwd=tmp_path, env=env).stdout
        assert install in " ".join(said.split()), said


def test_another_python_is_told_to_install_the_package(data_dir: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "own", with_pip=False)
    own = str(tmp_path / "own" / "bin" / "python")
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        command = [own, "-c", "import torch"]
        job = _failed(client, command=command, environment={"working_dir": str(tmp_path)})
        assert f"PyTorch is not installed for {own}: {own} -m pip install torch (" in client.job(job).reason


@needs_other_users
def test_packages_that_the_jobs_user_cannot_read_are_named_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_folder() as folder:
        use_reachable_python(monkeypatch, folder)
        closed = folder / "closed"
        closed.mkdir(mode=0o700)
        (closed / "sitecustomize.py").write_text("")
        (folder / "train.py").write_text("import torch.no_such_module\n")
        (folder / "train.py").chmod(0o644)
        monkeypatch.setenv("PYTHONPATH", f"{closed}:{reachable_packages(folder)}")
        with server_of(folder) as admin:
            there = {"working_dir": str(folder)}
            job = _failed(admin, script="train.py", tenant="red", environment=there)
            said = f"run as the user {USERS[0]}, who cannot read {closed}, where packages of {PYTHON} lie: install"
            lines = [line for line in admin.logs(job).text.splitlines() if line.strip()]
            assert (said in lines[0], sum(said in line for line in lines)) == (True, 1), lines
            assert said in admin.job(job).reason
        assert f"{USERS[0]} cannot read {closed}" in (folder / "data" / "server.log").read_text()
