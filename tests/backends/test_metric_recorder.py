"""Metrics on their way from lines of output to the file of a run."""

import os
from pathlib import Path

from penstock.backends.agent.metrics.metric_recorder import BURST, MetricRecorder, ValueBudget, read_metrics
from penstock.backends.agent.progress import complaint, parse_line, parse_metrics
from penstock.core import MOST_METRICS, MetricValue


def recorder(path: Path, remarks: list[str] | None = None) -> MetricRecorder:
    return MetricRecorder(path, lambda: 1e9, (remarks if remarks is not None else []).append)


def said(line: str) -> list[tuple[str, float, int | None]]:
    return [(metric.name, metric.value, metric.step) for metric in parse_metrics(line)]


def test_every_other_word_of_a_line_is_a_metric() -> None:
    assert said("penstock: step=12 total=99 loss=0.5 val_acc=0.91") == [("loss", 0.5, 12), ("val_acc", 0.91, 12)]
    assert said("  penstock: eval/loss=-1e-3 lr=3e-4 ") == [("eval/loss", -1e-3, None), ("lr", 3e-4, None)]
    assert str(said("penstock: loss=nan")[0][1]) == "nan"


def test_what_is_no_metric_is_ordinary_output() -> None:
    for line in (
        "penstock: hello",
        "val_acc=0.9",
        "penstock: a=b",
        "penstock: 9x=1",
        "penstock: checkpointed x=1",
        "penstock:",
    ):
        assert said(line) == []
    assert len(said("penstock: " + " ".join(f"m{number}=1" for number in range(5000)))) <= MOST_METRICS


def test_a_line_with_a_step_that_is_none_says_nothing_and_is_complained_about() -> None:
    line = "penstock: step=x loss=1"
    assert said(line) == []
    assert complaint(line) is not None
    assert complaint("penstock: global_step=7") is None
    assert parse_line("penstock: val_acc=1") is None


def test_values_without_a_step_are_of_the_step_that_was_reached(tmp_path: Path) -> None:
    kept = recorder(tmp_path / "m")
    kept.take(parse_metrics("penstock: acc=0.1"))
    kept.take(parse_metrics("penstock: acc=0.2"))
    kept.reached(50)
    kept.take(parse_metrics("penstock: acc=0.3"))
    kept.flush()
    (series,) = read_metrics(tmp_path / "m")
    assert [(point.step, point.value) for point in series.points] == [(1, 0.1), (2, 0.2), (50, 0.3)]


def test_the_next_agent_of_a_run_goes_on_with_its_curves(tmp_path: Path) -> None:
    first = recorder(tmp_path / "m")
    first.take([MetricValue(name="loss", value=1.0 / step, step=step) for step in (1, 2, 3, 4)])
    first.flush()
    second = recorder(tmp_path / "m")
    second.take([MetricValue(name="loss", value=0.25, step=3)])
    second.flush()
    (series,) = read_metrics(tmp_path / "m")
    assert [(point.step, point.value) for point in series.points] == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_a_flood_of_names_and_values_is_cut_with_one_word_about_it(tmp_path: Path) -> None:
    remarks: list[str] = []
    kept = recorder(tmp_path / "m", remarks)
    kept.take(MetricValue(name=f"m{number}", value=1.0, step=1) for number in range(MOST_METRICS + 50))
    kept.take(MetricValue(name="m0", value=1.0, step=step) for step in range(2 * BURST))
    kept.flush()
    assert len(read_metrics(tmp_path / "m")) == MOST_METRICS
    assert len(remarks) == 2
    assert (tmp_path / "m").stat().st_size < 100_000


def test_a_budget_is_saved_up_to_a_burst() -> None:
    budget = ValueBudget(per_s=0.0, burst=3)
    assert [budget.take() for _ in range(5)] == [True, True, True, False, False]


def test_a_file_that_a_job_has_spoilt_costs_its_metrics_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'{"name": "a"}\n[[[[\n\xff\xfe\n' + b"[" * 100_000 + b"\n12\n")
    assert read_metrics(path) == []
    path.unlink()
    os.mkfifo(path)
    assert read_metrics(path) == []
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert read_metrics(path) == []
    assert read_metrics(tmp_path / "none") == []
