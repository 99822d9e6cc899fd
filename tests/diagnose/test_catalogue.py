"""What comes with us: every signature finds its example, names its category, and takes no line for ever."""

import re
import time

import pytest

from penstock.core import InputError, Remedy
from penstock.diagnose import Catalogue, Doctor, Level, shipped_catalogue, text_source, tried
from penstock.diagnose.signatures.literals import anchors_of
from penstock.diagnose.signatures.trial import hard_lines

PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def test_every_signature_finds_its_example(catalogue: Catalogue) -> None:
    assert {one.id: one.faults for one in map(tried, catalogue.signatures.values()) if not one.passed} == {}


def test_every_example_is_named_by_its_own_category(catalogue: Catalogue) -> None:
    doctor = Doctor(catalogue)
    examples = {one.id: (one.category, one.example) for one in catalogue.signatures.values()}
    found = {name: doctor.diagnose([text_source(text)]).category for name, (_, text) in examples.items()}
    assert {name: got for name, got in found.items() if got != examples[name][0]} == {}


def test_no_shipped_pattern_is_slow_on_lines_made_to_hurt_it(catalogue: Catalogue) -> None:
    slow = {}
    for one in catalogue.signatures.values():
        began = time.process_time()
        for line in hard_lines(one.example):
            re.search(one.regex, line, re.IGNORECASE)
        if (took := time.process_time() - began) > PATIENCE_S:
            slow[one.id] = took
    assert slow == {}


def test_all_forty_four_categories_have_words_and_signatures(catalogue: Catalogue) -> None:
    used = {one.category for one in catalogue.signatures.values()}
    assert used == set(catalogue.categories)
    assert len(used) == 44
    assert all(kind.cause and kind.fix for kind in catalogue.categories.values())


def test_advice_is_a_sentence_that_says_what_to_do(catalogue: Catalogue) -> None:
    """Words of a report, such as what solved it for somebody, are no advice."""
    said = {one.id: one.fix for one in catalogue.signatures.values()} | {
        kind.name: kind.fix for kind in catalogue.categories.values()
    }
    advice = re.compile(r"[A-Z]\w+ (?!solved|was\b|is\b).+ .+ .+")
    assert {name: fix for name, fix in said.items() if not advice.match(fix) or "->" in fix or "solved it" in fix} == {}


def test_causes_are_clauses(catalogue: Catalogue) -> None:
    said = {one.id: one.cause for one in catalogue.signatures.values()}
    begins = re.compile(r"[a-z]\w*\b|NCCL|MPI|RDMA|PCIe|GPUs|Horovod|InfiniBand|/dev")
    wrong = {name: cause for name, cause in said.items() if not begins.match(cause) or len(cause.split()) < 4}
    assert wrong == {}


def test_a_later_file_adds_and_replaces(catalogue: Catalogue) -> None:
    document = {
        "category": {"site.badge": {"group": "script", "cause": "no badge", "fix": "Get one", "action": "retry"}},
        "signature": [{"id": "site.badge.1", "category": "site.badge", "regex": "badge reader offline",
                       "example": "E badge reader offline"}],
    }  # fmt: skip
    found = Doctor(catalogue.extended(document, "mine")).diagnose([text_source("E badge reader offline")])
    assert (found.category, found.cause, found.action) == ("site.badge", "no badge", Remedy.RETRY)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"id": "x.1", "category": "no.such", "regex": "a long literal"}, "no.such"),
        ({"id": "x.1", "category": "mem.shm", "regex": "a long literal", "level": "loud"}, "loud"),
        ({"id": "x.1", "category": "mem.shm", "regex": "a long literal", "action": "pray"}, "pray"),
        ({"id": "x.1", "category": "mem.shm", "regx": "a long literal"}, "regx"),
        ({"id": "x.1", "category": "mem.shm", "anchors": ["long enough"]}, "no regex"),
        ({"id": "x.1", "category": "mem.shm", "regex": "(a|b)"}, "Name anchors"),
    ],
)
def test_a_wrong_signature_is_refused_by_name(catalogue: Catalogue, fields: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        catalogue.extended({"signature": [fields]}, "mine")


@pytest.mark.parametrize(
    ("regex", "anchors"),
    [
        (r"CUDA out of memory\. Tried", ("CUDA out of memory. Tried",)),
        (r"Broken pipe|Connection reset", ("Broken pipe", "Connection reset")),
        (r"exit(ed)? with code \d+", (" with code ",)),
        (r"loss[: ]+(nan|inf)", ()),
        (r"abcdefg?hijklmno", ("hijklmno",)),
        (r"a{3}ncclSystemError+", ("ncclSystemError",)),
        (r"(one long literal|another one)", ()),
    ],
)
def test_literals_of_a_pattern_are_those_that_every_match_has(regex: str, anchors: tuple[str, ...]) -> None:
    assert anchors_of(regex) == anchors


def test_levels_are_those_that_are_documented() -> None:
    assert [level.value for level in Level] == ["root", "probable", "symptom", "warning"]
