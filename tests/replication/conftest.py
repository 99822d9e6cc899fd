"""Public traces as the artifact's jobs, and jobs made by hand."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from penstock.simulate.replicas.elasticflow import LEVELS, ArtifactJob, cap, family, widest
from tests.tools import needs

DATA = Path(__file__).parents[3] / "shared" / "data" / "elasticflow"

LoadTrace = Callable[[str, str], list[ArtifactJob]]


@pytest.fixture(scope="session")
def load_trace() -> LoadTrace:
    """The jobs of a trace file, joined with the tables of a device family."""

    def load(trace: str, tables: str) -> list[ArtifactJob]:
        needs.public_data("elasticflow")
        rates = _read_tables(DATA / f"throughputs_{tables}")
        device_family = family(model for model, _ in rates)
        with _open(DATA / trace) as file:
            return [_job(row, index, rates, device_family) for index, row in enumerate(csv.DictReader(file))]

    return load


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def _read_tables(folder: Path) -> dict[tuple[str, int], tuple[float, ...]]:
    rates = {}
    for path in folder.glob("*.csv"):
        with path.open() as file:
            for row in csv.DictReader(file):
                cells = [row[str(level)] for level in LEVELS]
                rates[path.stem, int(row["global_batch_size"])] = tuple(
                    0.0 if cell in ("", "nan") else float(cell) for cell in cells
                )
    return rates


def _job(
    row: dict[str, str], index: int, rates: dict[tuple[str, int], tuple[float, ...]], device_family: str
) -> ArtifactJob:
    model, batch = row["model_name"], int(row["batch_size"])
    best_effort = row.get("best_effort") == "1"
    return ArtifactJob(
        index=index,
        id=row["job_id"],
        submitted_at=int(row.get("submission_time") or row["submit_time"]),
        iterations=int(row.get("num_iteration") or row["iteration"]),
        deadline=None if best_effort else int(row.get("deadline") or row["ddl"]),
        requested=int(row["num_gpu"]),
        duration=int(row["duration"]),
        model=model,
        batch=batch,
        rates=rates[model, batch],
        cap=cap(device_family, model, batch),
        widest=widest(rates[model, batch], batch),
    )


MakeJob = Callable[..., ArtifactJob]


@pytest.fixture
def make_job() -> MakeJob:
    """A job that scales perfectly up to eight devices, changed where the test says so."""

    def make(index: int, **changes: object) -> ArtifactJob:
        fields: dict[str, object] = {
            "index": index,
            "id": str(index),
            "submitted_at": 0,
            "iterations": 1000,
            "deadline": 5000,
            "requested": 1,
            "duration": 1000,
            "model": "resnet50",
            "batch": 64,
            "rates": (1.0, 2.0, 4.0, 8.0, 0.0, 0.0, 0.0),
            "cap": 8,
            "widest": 8,
        }
        return ArtifactJob(**{**fields, **changes})  # type: ignore[arg-type]

    return make
