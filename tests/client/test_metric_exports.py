"""Exports of metrics: read back as files here, and by the trackers' own packages where those are installed."""

import csv
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.client import MetricFormat, export_metrics
from penstock.client.metric_exports.wandb_log import framed
from penstock.core import InputError
from penstock.tools import read_scalars
from penstock.tools.protobuf_wire import fields
from penstock.wire import JobDetail, JobMetricsView, MetricView
from tests.tools import needs

JOB = JobDetail.model_validate({
    "id": "j-abc", "number": 1, "name": "night", "tenant": "blue", "state": "finished", "history": [], "workers": [],
    "submitted_at": "2026-01-02T03:04:05Z", "started_at": "2026-01-02T03:04:06Z", "ended_at": "2026-01-02T03:05:06Z",
    "spec": {"work": 100, "args": ["--lr", "0.1"], "environment": {"working_dir": "/x"}},
})  # fmt: skip
BEGAN = 1767323046.0


def metric(name: str, *pairs: tuple[int, float]) -> MetricView:
    values = [value for _, value in pairs]
    return MetricView(
        name=name, count=len(pairs), last=values[-1], low=min(values), high=max(values), lows=values, highs=values,
        steps=[step for step, _ in pairs], times=[BEGAN + step for step, _ in pairs], values=values,
    )  # fmt: skip


METRICS = JobMetricsView(
    job_id="j-abc", name="night",
    metrics=[
        metric("eval", (10, 0.5)), metric("eval/loss", (10, 2.0), (20, math.nan)), metric("a/../../../evil", (1, 1.0)),
    ],
)  # fmt: skip


def test_csv(tmp_path: Path) -> None:
    path = export_metrics(MetricFormat.CSV, JOB, METRICS, tmp_path / "new")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["metric"], row["step"], row["value"]) for row in rows][:3] == [
        ("eval", "10", "0.5"), ("eval/loss", "10", "2.0"), ("eval/loss", "20", "nan"),
    ]  # fmt: skip
    assert rows[0]["time"].startswith("2026-01-02T03:04:16")


def test_tensorboard(tmp_path: Path) -> None:
    folder = export_metrics(MetricFormat.TENSORBOARD, JOB, METRICS, tmp_path)
    assert export_metrics(MetricFormat.TENSORBOARD, JOB, METRICS, tmp_path) == folder
    (path,) = folder.iterdir()
    scalars, _ = read_scalars(path.read_bytes())
    assert [(scalar.tag, scalar.step, scalar.wall_time) for scalar in scalars[:2]] == [
        ("eval", 10, BEGAN + 10), ("eval/loss", 10, BEGAN + 10),
    ]  # fmt: skip


def test_mlflow(tmp_path: Path) -> None:
    run = export_metrics(MetricFormat.MLFLOW, JOB, METRICS, tmp_path / "mlruns")
    assert export_metrics(MetricFormat.MLFLOW, JOB, METRICS, tmp_path / "mlruns") == run
    about = yaml.safe_load((run / "meta.yaml").read_text())
    assert (about["run_name"], about["status"], about["end_time"]) == ("night", 3, 1767323106000)
    assert yaml.safe_load((run.parent / "meta.yaml").read_text())["name"] == "penstock"
    lines = (run / "metrics" / "eval" / "loss").read_text()
    assert lines == f"{1000 * int(BEGAN + 10)} 2.0 10\n{1000 * int(BEGAN + 20)} nan 20\n"
    assert (run / "metrics" / "eval_").read_text().endswith(" 0.5 10\n")
    assert (run / "params" / "args").read_text() == "--lr 0.1"
    assert (run / "metrics" / "a" / "_" / "_" / "_" / "evil").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["mlruns"], "nothing is written elsewhere"


def test_mlflow_reads_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    module = pytest.importorskip("mlflow.store.tracking.file_store", reason=needs.TRACKERS)
    run = export_metrics(MetricFormat.MLFLOW, JOB, METRICS, tmp_path / "mlruns")
    store = module.FileStore(str(tmp_path / "mlruns"))
    found = store.get_run(run.name)
    assert (found.info.run_name, found.info.status, found.data.params["args"]) == ("night", "FINISHED", "--lr 0.1")
    history = store.get_metric_history(run.name, "eval/loss")
    assert [(point.step, str(point.value)) for point in history] == [(10, "2.0"), (20, "nan")]
    assert [each.name for each in store.search_experiments()] == ["penstock"]


def pieces(log: bytes) -> list[bytes]:
    """The records of a log, every checksum compared."""
    found, record, position = [], b"", 7
    assert log[:7] == b":W&B\xe1\xbe\x00"
    while position < len(log):
        room = 32768 - position % 32768
        if room < 7:
            assert log[position : position + room] == bytes(room)
            position += room
            continue
        checksum, length, place = struct.unpack_from("<IHB", log, position)
        data = log[position + 7 : position + 7 + length]
        assert length <= room - 7
        assert checksum == zlib.crc32(bytes([place]) + data)
        record = data if place in (1, 2) else record + data
        if place in (1, 4):
            found.append(record)
        position += 7 + length
    return found


@pytest.mark.parametrize("sizes", [[0, 1, 5], [32754, 10], [32747, 3], [32760, 32768, 9], [200_000, 1]])
def test_a_log_of_weights_and_biases_keeps_to_its_blocks(sizes: list[int]) -> None:
    records = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    assert pieces(framed(records)) == records


def wandb_records(tmp_path: Path) -> list[bytes]:
    folder = export_metrics(MetricFormat.WANDB, JOB, METRICS, tmp_path)
    assert folder.name == "offline-run-20260102_030405-j-abc"
    return pieces((folder / "run-j-abc.wandb").read_bytes())


def test_wandb(tmp_path: Path) -> None:
    kinds = [[number for number, _, _ in fields(record)] for record in wandb_records(tmp_path)]
    assert kinds == [[1, 21], [1, 17], [1, 2], [1, 2], [1, 2], [1, 3], [1, 18]]


def test_the_messages_of_wandb_read_its_run(tmp_path: Path) -> None:
    messages: Any = pytest.importorskip("wandb.proto.wandb_internal_pb2", reason=needs.TRACKERS)
    header, run, *history, summary, end = [messages.Record.FromString(one) for one in wandb_records(tmp_path)]
    assert header.header.version_info.producer == "penstock"
    assert (run.run.run_id, run.run.display_name, run.run.project) == ("j-abc", "night", "penstock")
    assert run.run.start_time.seconds == BEGAN
    assert {item.key: item.value_json for item in run.run.config.update}["args"] == '"--lr 0.1"'
    rows = [
        (one.history.step.num, {item.nested_key[0]: item.value_json for item in one.history.item}) for one in history
    ]
    assert [step for step, _ in rows] == [1, 10, 20]
    assert (rows[1][1]["eval"], rows[1][1]["eval/loss"], rows[1][1]["_runtime"]) == ("0.5", "2.0", "10.0")
    assert rows[2][1]["eval/loss"] == "NaN"
    assert {item.nested_key[0] for item in summary.summary.update} == {"eval", "eval/loss", "a/../../../evil"}
    assert (end.exit.exit_code, end.exit.runtime) == (0, 60)


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        export_metrics(MetricFormat.CSV, JOB, METRICS, tmp_path / "file" / "below")


def test_a_run_that_began_starts_then_and_one_that_waits_when_it_was_submitted(tmp_path: Path) -> None:
    for started_at, expected in ((JOB.started_at, BEGAN), (None, BEGAN - 1.0)):
        job = JOB.model_copy(update={"started_at": started_at})
        run = export_metrics(MetricFormat.MLFLOW, job, METRICS, tmp_path / str(expected))
        about = yaml.safe_load((run / "meta.yaml").read_text())
        assert about["start_time"] == expected * 1000
