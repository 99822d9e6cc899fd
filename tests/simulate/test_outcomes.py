"""One line per job, as CSV or Parquet."""

import csv
import math
import sys
from pathlib import Path

import pytest

from penstock.core import Deadline, InputError, install_command
from penstock.simulate import Fate, JobOutcome, write_csv, write_parquet
from penstock.simulate.outcomes import COLUMNS
from tests.simulate.build import job, run


@pytest.fixture
def outcomes() -> list[JobOutcome]:
    jobs = [
        job('met, "quoted"', goal=Deadline(60.0), model="bert", tenant="ünï"),
        job("declined", goal=Deadline(10.0)),
        job("done", 50.0),
    ]
    return run(jobs, policy="elasticflow").outcomes


def test_csv_has_a_row_per_job_and_reads_back(outcomes: list[JobOutcome], tmp_path: Path) -> None:
    write_csv(outcomes, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert set(rows) == {'met, "quoted"', "declined", "done"}
    met = rows['met, "quoted"']
    assert (met["fate"], met["model"], met["tenant"], met["promised"]) == ("met", "bert", "ünï", "True")
    assert (float(met["deadline"]), float(met["started_at"])) == (60.0, 0.0)
    assert (rows["declined"]["fate"], rows["declined"]["finished_at"]) == ("declined", "nan")
    assert float(rows["done"]["deadline"]) == math.inf
    for outcome in outcomes:
        assert float(rows[outcome.id]["device_seconds"]) == outcome.device_seconds


def test_columns_are_the_fields_in_order(tmp_path: Path) -> None:
    write_csv([], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").strip() == ",".join(COLUMNS)
    assert COLUMNS[:3] == ("id", "fate", "model")


def test_parquet_keeps_types(outcomes: list[JobOutcome], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(outcomes, tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == list(COLUMNS)
    assert {str(table.schema.field(name).type) for name in ("submitted_at", "fairness")} == {"double"}
    assert (str(table.schema.field("promised").type), str(table.schema.field("rescales").type)) == ("bool", "int64")
    rows = {row["id"]: row for row in table.to_pylist()}
    assert {name: Fate(row["fate"]) for name, row in rows.items()} == {each.id: each.fate for each in outcomes}
    assert rows["done"]["deadline"] == math.inf
    assert math.isnan(rows["declined"]["finished_at"])


def test_without_pyarrow_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError) as caught:
        write_parquet([], tmp_path / "out.parquet")
    assert str(caught.value) == f"Parquet output needs pyarrow, which is not installed: {install_command('parquet')}."
    assert not (tmp_path / "out.parquet").exists()
