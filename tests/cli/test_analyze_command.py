"""``penstock analyze``: a trace, or one's own past, as tables with advice."""

from pathlib import Path

import pytest

from tests.analysis.test_sources import HELIOS
from tests.cli.conftest import Penstock


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "cluster_log.csv"
    file.write_text(HELIOS)
    return file


def test_a_trace_is_told_in_tables_as_json_and_as_a_page(log: Path, penstock: Penstock, tmp_path: Path) -> None:
    told = penstock("analyze", str(log), "--cluster", "1x8")
    assert told.code == 0, told.err
    assert "Waiting for devices" in told.out
    as_json = penstock("analyze", str(log), "--json", "--out", "page.html")
    assert as_json.json()["jobs"] == 2
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_samples_say_what_was_held_idle(log: Path, penstock: Penstock, tmp_path: Path) -> None:
    rows = "".join(f"{minute * 60},1,node/0,0\n" for minute in range(60))
    (tmp_path / "busy.csv").write_text("time,job,device,busy\n" + rows)
    told = penstock("analyze", str(log), "--samples", "busy.csv")
    assert told.code == 0, told.err
    assert "100.0 % of what was held stood idle" in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.csv",), "there is no file nowhere.csv"),
        (("cluster_log.csv", "--out", "page.txt"), "a file that ends in .html"),
        (("cluster_log.csv", "--database", "sqlite:///x.db"), "both a trace and a past"),
        (("cluster_log.csv", "--cluster", "8by8"), "8by8"),
        (("--data-dir", "empty"), "does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], said: str, log: Path, penstock: Penstock) -> None:
    refused = penstock("analyze", *words)
    assert refused.code == 2
    assert said in refused.err
