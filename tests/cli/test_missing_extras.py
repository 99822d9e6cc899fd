"""A package that is not installed is one sentence with the command that installs it, never a traceback."""

import pickle
import re
from pathlib import Path

import pytest

from penstock.core import CPU_BUILD, InputError, MissingExtraError, install_command, require
from penstock.simulate import Profiles, generate, write_trace
from tests.tools import needs
from tests.tools.absence import run_without

MODEL = """
import torch
def penstock_model(batch):
    model = torch.nn.Linear(4, 4)
    return model, lambda: model(torch.randn(batch, 4)).sum()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(MODEL)
    for name in ("a.parquet", "a.txt"):
        (tmp_path / name).write_text("some text")
    write_trace(tmp_path / "trace.csv", generate(5, seed=1, profiles=Profiles.builtin(), mean_interval_s=60))
    return tmp_path


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("torch", "runtime", ("predict", "resnet50")),
        ("torch", "runtime", ("plan", "train.py", "--cluster", "1x2xA100", "--batch", "8")),
        ("torch", "runtime,predict", ("profile", "device")),
        pytest.param("sklearn", "runtime,predict", ("profile", "device"), marks=needs.with_torch),
        ("pyarrow", "parquet", ("simulate", "trace.csv", "--policy", "fifo", "--out", "rows", "--rows", "parquet")),
        ("pyarrow", "data", ("data", "pack", "a.parquet", "--out", "packed")),
        ("tokenizers", "data", ("data", "pack", "a.txt", "--out", "packed", "--tokenizer", "tokenizer.json")),
        ("scipy", "optimum", ("simulate", "trace.csv", "--policy", "fifo", "--optimum")),
        ("psycopg", "postgres", ("serve", "--data-dir", "data", "--database", "postgresql://a@127.0.0.1/c")),
    ],
)
def test_a_verb_says_what_to_install(package: str, extra: str, words: tuple[str, ...], folder: Path) -> None:
    done = run_without([package], *words, cwd=folder)
    (complaint,) = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
    assert done.returncode == 2
    size = f" ({CPU_BUILD})" if package == "torch" else ""
    assert complaint.endswith(f"needs {package}, which is not installed: {install_command(extra)}{size}.")
    assert "Traceback" not in done.stderr


def test_elastic_training_says_what_to_install(tmp_path: Path) -> None:
    done = run_without(["torch"], program="import penstock.elastic", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"penstock.elastic needs torch, which is not installed: {install_command('runtime')} ({CPU_BUILD})."
    )


def test_a_server_without_the_dashboard_says_so_at_its_front_page(tmp_path: Path) -> None:
    program = """
from pathlib import Path
from fastapi import FastAPI
from fastapi.testclient import TestClient
from penstock.serve.dashboard import mount_dashboard
app = FastAPI()
print(mount_dashboard(app, None, Path.cwd()))
print(TestClient(app).get("/").text)
"""
    done = run_without(["nicegui"], program=program, cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "False", done.stderr
    assert f"nicegui is not installed. On this machine: {install_command('web')}" in done.stdout


@pytest.mark.parametrize(
    "words", [("--help",), ("policies",), ("simulate", "trace.csv", "--policy", "fifo"), ("config",)]
)
def test_a_plain_installation_needs_no_extra(words: tuple[str, ...], folder: Path) -> None:
    extras = ["torch", "nicegui", "pyarrow", "psycopg", "sklearn", "scipy", "psutil", "pynvml"]
    done = run_without(extras, *words, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_an_extra_that_is_broken_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halfway.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        require("halfway", extra="web", why="the dashboard")


def test_the_error_is_one_of_ours_and_an_import_error_and_survives_a_process() -> None:
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package.inner", extra="web", why="the dashboard")
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ImportError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert caught.value.name == "no_such_package"


def test_nothing_installs_penstock_by_a_name_that_no_index_has() -> None:
    """Whoever registered that name on an index could run code on every machine that follows the advice."""
    root = Path(__file__).parents[2]
    texts = [*root.glob("src/**/*.py"), *root.glob("src/**/*.toml"), *root.glob("docs/*.md"), root / "README.md"]
    by_name = re.compile(r"""(?:pip3?\s+|\buv\s+)install\s+(?:-\S+\s+)*["'`]?penstock(?:\[|["'`\s]|$)|\bpenstock\[\w""")
    found = [f"{path.name}: {hit[0]}" for path in texts for hit in by_name.finditer(path.read_text())]
    assert found == []


def test_an_extra_is_installed_from_the_checkout_or_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert install_command("web") == f"pip install -e '{Path(__file__).parents[2]}[web]'"
    monkeypatch.setattr("penstock.core.errors.__file__", str(tmp_path / "lib" / "penstock" / "core" / "errors.py"))
    assert re.fullmatch(
        r"bin/pip install 'penstock-[\w.]+-py3-none-any\.whl\[web\]'", install_command("web", "bin/pip")
    )
