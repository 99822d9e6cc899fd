"""The lint rejects every way to unpickle that our code might use."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import shelve", "import marshal", "import cloudpickle",
        "import dill", "import joblib", "import torch\ntorch.load('x')", "from torch import load",
        "import numpy as np\nnp.load('x')", "import pandas\npandas.read_pickle('x')",
        "import torch.distributed as dist\ndist.all_gather_object([], 1)",
        "import torch.distributed as dist\ndist.broadcast_object_list([])",
        "from torch.distributed import recv_object_list", "from torch.distributed.checkpoint import load",
    ],
)  # fmt: skip
def test_unpickling_is_rejected_by_the_lint(code: str) -> None:
    ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "TID251"]
    place = ["--stdin-filename", str(_ROOT / "src/penstock/core/example.py"), "-"]
    found = subprocess.run([*ruff, *place], input=code + "\n", text=True, capture_output=True, cwd=_ROOT, check=False)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "TID251" in found.stdout
