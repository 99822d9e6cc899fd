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
        "from torch.distributed.distributed_c10d import gather_object", "import torch.distributed.rpc",
        "from torch.serialization import load", "import torch\ntorch.jit.load('x')", "import torch.package",
        "import torch\ntorch.hub.load_state_dict_from_url('x')", "from numpy.lib.format import read_array",
        "from numpy.lib.npyio import load", "import sqlalchemy\nsqlalchemy.PickleType()",
        "from multiprocessing.connection import Client", "from multiprocessing.managers import BaseManager",
        "import yaml\nyaml.load('x', yaml.Loader)", "import yaml\nyaml.unsafe_load('x')",
    ],
)  # fmt: skip
def test_unpickling_is_rejected_by_the_lint(code: str) -> None:
    ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "TID251"]
    place = ["--stdin-filename", str(_ROOT / "src/penstock/core/example.py"), "-"]
    found = subprocess.run([*ruff, *place], input=code + "\n", text=True, capture_output=True, cwd=_ROOT, check=False)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "TID251" in found.stdout


def test_exceptions_from_the_lint_are_these() -> None:
    """Arrays without objects; an export, which only writes; a user's file by the reader that creates tensors only."""
    places = (path for folder in ("src", "bench", "examples") for path in (_ROOT / folder).rglob("*.py"))
    excepted = {path for path in places if "TID251" in path.read_text(encoding="utf-8")}
    assert sorted(path.relative_to(_ROOT / "src/penstock").as_posix() for path in excepted) == [
        "predict/array_files.py",
        "runtime/checkpoints/exchange/torch_directory.py",
        "runtime/evaluation/weights.py",
    ]
    for name in ("predict/array_files.py", "runtime/evaluation/weights.py"):
        text = (_ROOT / "src/penstock" / name).read_text(encoding="utf-8")
        (line,) = (line for line in text.splitlines() if "TID251" in line)
        assert "allow_pickle=False" in line or "weights_only=True" in line
