"""Our cost model gives the same digits as Aceso's for every plan its authors and its re-runs left behind."""

import csv
from pathlib import Path

import pytest
from bench.aceso.profiles import ProfileDatabase

from penstock.parallel.cost_model import evaluate
from penstock.parallel.devices import MB, Mesh
from tests.parallel.conftest import DATA, golden_files, read_golden

PRINTED = 0.0051
"""Half a unit of the last digit of the published values."""


def _mesh(path: Path) -> tuple[str, Mesh]:
    _, size_set, model, size = path.stem.split("_", 3)
    with (DATA / "reference_plans.csv").open() as file:
        row = next(
            row for row in csv.DictReader(file) if (row["set"], row["model"], row["size"]) == (size_set, model, size)
        )
    mesh = Mesh(
        nodes=int(row["nodes"]), per_node=int(row["gpus_per_node"]), memory_bytes=float(row["memory_limit_MB"]) * MB
    )  # fmt: skip
    return row["profile_db"], mesh


@pytest.mark.parametrize("path", golden_files() or [Path("absent")], ids=lambda path: path.stem)
def test_every_stage_takes_the_published_time_and_memory(database: ProfileDatabase, path: Path) -> None:
    plan, golden = read_golden(path)
    db, mesh = _mesh(path)
    tables = database.tables(db, golden["model_name"], golden["model_size"])
    result = evaluate(plan, tables, mesh)
    n = plan.micro_batches
    for number, stage in enumerate(result.stages):
        times = [
            stage.forward_us, stage.backward_us + stage.recompute_us, stage.recompute_us, stage.input_us,
            stage.output_us, stage.reshard_us,
        ]  # fmt: skip
        found = [value / 1000 * n for value in times] + [result.stage_ms[number]]
        assert found == pytest.approx(golden["stage_times"][number], abs=PRINTED), number
        memory = [
            stage.weights_mb, stage.gradients_mb, stage.optimizer_mb, stage.activations_mb, stage.peak_mb,
            stage.reserved_mb,
        ]  # fmt: skip
        assert stage.memory_mb == pytest.approx(golden["stage_memory"][number][0], abs=PRINTED), number
        assert memory == pytest.approx(golden["stage_memory"][number][1:], abs=0.5001), number
    assert result.iteration_s * 1000 == pytest.approx(golden["pred_iteration_ms"], abs=PRINTED)
    assert result.fits(mesh)
