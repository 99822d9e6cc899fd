"""The examples in the documentation are files we read."""

import re
from pathlib import Path

import pytest

from penstock.core import Cluster
from penstock.simulate.traces import FORMATS, HEADERLESS, Profiles, TraceJob, read_events, read_trace

GUIDE = (Path(__file__).parents[2] / "docs" / "trace-formats.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```(csv|json|tsv|swf)\n(.*?)```", GUIDE, re.DOTALL)
EVENTS = [example for example in EXAMPLES if "event" in example[1]]
TRACES = [example for example in EXAMPLES if "global_batch_size" not in example[1] and example not in EVENTS]


@pytest.mark.parametrize(("language", "text"), TRACES)
def test_example_traces_are_read(tmp_path: Path, language: str, text: str) -> None:
    path = tmp_path / f"example.{language}"
    path.write_text(text)
    assert len(read_trace(path)) >= 1


def test_every_format_has_an_example(tmp_path: Path) -> None:
    found = set()
    for number, (_, text) in enumerate(TRACES):
        (tmp_path / f"{number}.csv").write_text(text)
        found.add(read_trace(tmp_path / f"{number}.csv").format)
    assert found == {known.name for known in (*FORMATS, *HEADERLESS)}


@pytest.mark.parametrize(("language", "text"), EVENTS)
def test_example_events_fit_a_cluster_and_jobs(tmp_path: Path, language: str, text: str) -> None:
    (path := tmp_path / f"example.{language}").write_text(text)
    jobs = [TraceJob(id=name, submitted_at=0.0, duration_s=1.0) for name in ("night-run", "sweep-1", "sweep-2")]
    assert len(read_events(path).bind(Cluster.parse("2x8"), jobs)) >= len(read_events(path))


def test_the_example_table_is_read(tmp_path: Path) -> None:
    (table,) = (text for _, text in EXAMPLES if "global_batch_size" in text)
    (tmp_path / "bert.csv").write_text(table)
    assert Profiles.load(tmp_path).batches("bert") == (64, 128)
