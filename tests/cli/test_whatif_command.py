"""``penstock whatif``: one's own past under other rules, read without a server."""

from pathlib import Path

import pytest

from tests.cli.conftest import Penstock
from tests.control.build import Platform
from tests.whatif.build import LivedThrough


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> LivedThrough:
    return LivedThrough(tmp_path_factory.mktemp("lived"))


def test_a_database_is_studied_without_its_server(lived: LivedThrough, penstock: Penstock, tmp_path: Path) -> None:
    words = ("whatif", "--database", lived.url, "--since", "1970-01-02", "--policy", "fifo")
    told = penstock(*words, "--json", "--out", "study.html")
    assert told.code == 0, told.err
    assert [each["label"] for each in told.json()["replays"]] == ["fifo"]
    assert (tmp_path / "study.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "fifoo"), "Did you mean 'fifo'"),
        ((), "nothing that should be otherwise"),
        (("--policy", "fifo", "--out", "study.txt"), "a file that ends in .html"),
        (("--policy", "fifo", "--tenants", "vision=-1"), "a positive number"),
        (("--devices", "-1000"), "at least one device is left"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: tuple[str, ...], said: str, lived: LivedThrough, penstock: Penstock
) -> None:
    refused = penstock("whatif", "--since", "1970-01-02", "--database", lived.url, *words)
    assert refused.code == 2
    assert said in refused.err


def test_a_directory_without_a_database_is_refused(penstock: Penstock, tmp_path: Path) -> None:
    refused = penstock("whatif", "--policy", "fifo", "--data-dir", str(tmp_path / "nowhere"))
    assert refused.code == 2
    assert "does not exist" in refused.err
    assert not (tmp_path / "nowhere").exists()


def test_a_server_is_asked_and_concludes_nothing_from_one_job(world: Platform, penstock: Penstock) -> None:
    world.submit(work=40)
    world.passes(20)
    told = penstock("whatif", "--policy", "fifo")
    assert told.code == 3, told.err
    assert "fewer than 20 tell nothing about a policy" in told.out
    assert "as it was" in told.out
