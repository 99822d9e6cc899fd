"""One temporary folder for a whole test run; a test that leaves something in it fails.

``TMPDIR`` points every test process, and what it starts, to a folder of its own below that of the run, so that other
programs on the machine do not matter. What is still there when the last test of a process has ended is an error of the
test after which it was first seen. The folder of a run that passed is removed; that of a run that failed is kept unless
no file is in it.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_ADVICE = "close or delete it in the test, or in the product if a user would keep it too"

_SOCKETS = frozenset({"agent.sock", "workers.sock", "job", "secret", "workers"})


class TemporaryFiles:
    """The temporary folder of this test process, and the test that each of its entries appeared after."""

    def __init__(self, config: pytest.Config) -> None:
        worker = getattr(config, "workerinput", None)
        if worker is None:
            self.run = Path(tempfile.mkdtemp(prefix="penstock-"))
            self.run.chmod(0o755)  # tests that start processes of other users give them folders below it
            config.option.basetemp = config.option.basetemp or str(self.run / "tests")
        else:
            self.run = Path(os.environ["TMPDIR"]).parent
        self.folder = self.run / ("main" if worker is None else worker["workerid"])
        cache = self.run / "torchinductor"  # which PyTorch keeps on purpose
        for folder in (self.folder, cache) if worker is None else (self.folder,):
            folder.mkdir()
            folder.chmod(0o1777)  # also for processes of other users
        os.environ["TMPDIR"] = str(self.folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        tempfile.tempdir = None
        self._seen: dict[str, str] = {}

    def look(self, test: str) -> None:
        """Note which test an entry was first seen after."""
        for name in os.listdir(self.folder):
            self._seen.setdefault(name, test)

    def left(self) -> dict[str, str]:
        """Return what is still there, with the test that it was first seen after."""
        self.look("")
        there = {self.folder / name: test for name, test in self._seen.items() if (self.folder / name).exists()}
        return {str(path): test for path, test in there.items() if not _of_a_killed_process(path)}

    @property
    def empty(self) -> bool:
        return not any(files for _, _, files in os.walk(self.run))

    def remove(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)


def _of_a_killed_process(path: Path) -> bool:
    """Return True for the sockets of an agent or a worker host, which cannot remove them when a test kills it."""
    return path.is_dir() and path.name.startswith("penstock-") and {entry.name for entry in path.iterdir()} <= _SOCKETS


def left_behind(path: str, test: str) -> pytest.TestReport:
    """Return the failure of a test that left ``path`` behind."""
    text = f"{path} is left behind, first seen after {test or 'the last test'}: {_ADVICE}"
    nodeid = test or "tests"
    return pytest.TestReport(nodeid, (nodeid, None, nodeid), {}, "failed", text, "teardown")
