"""What no signature finds is likened to their examples, and what is no failure is left alone."""

import tomllib
from pathlib import Path

import pytest

from penstock.core import Evidence
from penstock.diagnose import Catalogue, Doctor, shipped_catalogue, text_source
from penstock.diagnose.neighbours import LEAST_LIKENESS, Examples, is_error_like

HEALTHY = tomllib.loads(Path(__file__).with_name("healthy.toml").read_text())["log"]


@pytest.fixture(scope="module")
def doctor() -> Doctor:
    return Doctor.shipped()


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log["name"])
def test_nothing_is_named_in_a_healthy_log(doctor: Doctor, log: dict[str, str]) -> None:
    found = doctor.diagnose([text_source(log["text"])])
    assert (found.category, found.confidence) == ("unknown", 0.0)


def test_binary_data_is_no_failure(doctor: Doctor) -> None:
    assert doctor.diagnose([text_source(bytes(range(256)) * 100)]).category == "unknown"


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Doctor:
    """One that knows two wordings of a failure, and one of another."""
    file = tmp_path_factory.mktemp("own") / "signatures.toml"
    head = '[category."site.{0}"]\ngroup = "script"\ncause = "{0}"\nfix = "none"\n'
    row = "[[signature]]\nid = \"{0}.{1}\"\ncategory = \"site.{0}\"\nregex = '{2}'\nexample = '{2}'\n"
    texts = (
        ("badge", 1, "error: the badge reader of door seven is offline"),
        ("badge", 2, "error: the badge reader of the gate went offline"),
        ("pump", 1, "error: coolant pump lost pressure"),
    )
    tables = [head.format(name) for name in ("badge", "pump")] + [row.format(*text) for text in texts]
    file.write_text("\n".join(tables))
    return Doctor(Catalogue(categories={}, signatures={}).with_files([file]))


def test_a_new_wording_has_the_category_of_two_old_ones(worded: Doctor) -> None:
    found = worded.diagnose([text_source("started\nfatal error: badge reader of the cellar is offline again\n")])
    assert (found.category, found.confidence) == ("site.badge", 0.3)
    assert found.evidence[0].text == "fatal error: badge reader of the cellar is offline again"


@pytest.mark.parametrize(
    "text",
    ["error: coolant pump has lost all pressure", "error: the printer is on fire", "INFO error: badge reader offline"],
    ids=["one example is not two", "nothing is like it", "talk"],
)
def test_what_is_not_like_enough_stays_unknown(worded: Doctor, text: str) -> None:
    assert worded.diagnose([text_source(text)]).category == "unknown"


def test_examples_are_most_like_themselves() -> None:
    catalogue = shipped_catalogue()
    examples = Examples.of(catalogue)
    for signature in list(catalogue.signatures.values())[::50]:
        if is_error_like(signature.example):
            found = examples.nearest([Evidence(text=signature.example, source="x", line=None, rank=None)])
            assert found is None or (found.signature.category == signature.category and found.likeness > LEAST_LIKENESS)
