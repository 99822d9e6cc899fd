"""The examples in the documentation are files we read."""

import re
from pathlib import Path

import pytest

from penstock.simulate.traces import FORMATS, HEADERLESS, Profiles, read_trace

GUIDE = (Path(__file__).parents[2] / "docs" / "trace-formats.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```(csv|json|tsv|swf)\n(.*?)```", GUIDE, re.DOTALL)
TRACES = [example for example in EXAMPLES if "global_batch_size" not in example[1]]


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


def test_the_example_table_is_read(tmp_path: Path) -> None:
    (table,) = (text for _, text in EXAMPLES if "global_batch_size" in text)
    (tmp_path / "bert.csv").write_text(table)
    assert Profiles.load(tmp_path).batches("bert") == (64, 128)
