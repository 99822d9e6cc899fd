"""Programs run where some packages are not installed: a finder that comes first refuses them by name."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_REFUSAL = """
import sys
from importlib.abc import MetaPathFinder

class Refusal(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusal())
"""
COMMAND_LINE = "from penstock.cli import main; main()"


def run_without(
    packages: Sequence[str], *words: str, program: str = COMMAND_LINE, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """``program`` with the arguments ``words`` in a fresh interpreter that does not find ``packages``."""
    code = _REFUSAL.format(packages=tuple(packages)) + program
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
