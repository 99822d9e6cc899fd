"""A run of tests fails if a test leaves temporary files behind or is skipped without a word on how to run it."""

from pathlib import Path

import pytest

from tests.tools import needs
from tests.tools.test_processes import start

TIDY = """
import tempfile

def test_that_cleans_up(tmp_path):
    with tempfile.TemporaryDirectory() as folder:
        tmp_path.joinpath("kept").write_text(folder)
"""
LEAVING = """
import pathlib, tempfile

def test_that_leaves_a_folder():
    pathlib.Path(tempfile.mkdtemp(prefix="forgotten-"), "file").touch()

def test_that_leaves_nothing():
    pass
"""
FAILING = """
def test_that_fails():
    raise AssertionError
"""
SKIPPED = """
import pytest

@pytest.mark.skipif(True, reason="{reason}")
def test_that_is_skipped():
    raise AssertionError
"""
RUNS = pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])


def finished(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[int, str, list[str]]:
    """Return the exit code of an inner run, its output, and what it left in the temporary folder that it was given."""
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with start(folder, code, *options) as run:
        output, _ = run.communicate(timeout=120)
    return run.returncode, output, [path.name for path in temporary.iterdir()]


@RUNS
def test_a_run_that_passes_leaves_nothing(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output, left = finished(tmp_path, TIDY, monkeypatch, *options)
    assert (code, left) == (0, []), output


def test_a_run_that_fails_without_a_file_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, left = finished(tmp_path, FAILING, monkeypatch)
    assert (code, left) == (1, []), output
    assert "are kept" not in output


@RUNS
def test_a_folder_that_stays_is_an_error_of_its_test(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output, left = finished(tmp_path, LEAVING, monkeypatch, *options)
    assert code == 1
    assert "ERROR at teardown of test_inner.py::test_that_leaves_a_folder" in output
    assert "forgotten-" in output
    assert "2 passed, 1 error" in output
    assert len(left) == 1, "the folder of a run that failed is kept"


@pytest.mark.parametrize(("reason", "code"), [("no printer", 1), (needs.reason("no printer", "buy one"), 0)])
def test_a_skip_says_how_to_run_the_test(
    reason: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, output, _ = finished(tmp_path, SKIPPED.format(reason=reason), monkeypatch)
    assert found == code, output
    assert ("does not say how to run it" in output) == bool(code)
