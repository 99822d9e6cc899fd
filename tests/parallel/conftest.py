"""The public profile database where it is at hand, and chains made by hand where it is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.aceso.profiles import ProfileDatabase

from penstock.core import ParallelPlan
from tests.tools import needs

DATA = Path(__file__).parents[3] / "shared" / "data" / "aceso"


@pytest.fixture(scope="session")
def database() -> ProfileDatabase:
    return ProfileDatabase(needs.public_data("aceso"))


def golden_files() -> list[Path]:
    return sorted((DATA / "plans").glob("*.json"))


def read_golden(path: Path) -> tuple[ParallelPlan, dict[str, Any]]:
    """A published plan and what the original model says about it."""
    value = json.loads(path.read_text())
    stages = [
        {"devices": devices, "tp": tp, "dp": dp, "recompute": recompute, "variant": variant}
        for devices, tp, dp, recompute, variant in zip(
            value["num_gpus"], value["tp_rle"], value["dp_rle"], value["recompute_rle"], value["algo_rle"], strict=True
        )
    ]
    plan = ParallelPlan.from_mapping(
        {"model": f"{value['model_name']}-{value['model_size']}", "global_batch": value["global_batch_size"],
         "micro_batch": value["micro_batch_size"], "stages": stages}
    )  # fmt: skip
    return plan, value
