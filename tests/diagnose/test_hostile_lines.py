"""No line that somebody writes on purpose costs the doctor much: not one pattern, not one line, not many of them."""

import re
from collections.abc import Iterator

import pytest

from penstock.diagnose import Doctor, Signature, shipped_catalogue, text_source
from penstock.diagnose.signatures.literals import bounded
from penstock.diagnose.signatures.trial import hard_lines
from tests.tools.processor_time import processor_seconds

MOST_S = 0.4
LONGEST = 4096
KNOWN = ("comm.generic.13", "hw.fabric.14", "limits.memlock.11", "limits.memlock.14", "storage.io.10")
"""Those that took longest before their repeats had an end, up to a minute for one line."""
SIGNATURES = shipped_catalogue().signatures


def check(signature: Signature) -> None:
    for name in ("regex", "near", "unless"):
        pattern = re.compile(bounded(getattr(signature, name)), re.IGNORECASE)
        for line in hard_lines(signature.example, signature.anchors) if pattern.pattern else ():
            with processor_seconds(MOST_S, f"{name} of {signature.id} on {line[:60]!r}"):
                pattern.search(line)


@pytest.mark.parametrize("name", [*KNOWN, *sorted(SIGNATURES)[7::200]])
def test_no_pattern_takes_long_for_a_line(name: str) -> None:
    check(SIGNATURES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_none_of_all_patterns_takes_long_for_a_line(name: str) -> None:
    check(SIGNATURES[name])


def test_the_line_that_held_up_a_server() -> None:
    lines = "\n".join("cudaGetDeviceCount" + "1" * 3980 + f";{at:07d}" for at in range(12))
    with processor_seconds(1.0, "the diagnosis"):
        assert not Doctor.shipped().diagnose([text_source(lines)]).known


@pytest.mark.parametrize("word", ["1", "1_", "a.", "11:11", "node-1 ", "[1] ", "> ", "1: ", "Missing", "a1-"])
def test_prefixes_and_tracebacks_of_any_kind_take_little_time(word: str) -> None:
    line = (word * LONGEST)[: LONGEST - 50]
    text = f"{line}Traceback (most recent call last):\n{line} x\n{line}KeyError: 1\n"
    with processor_seconds(1.0, f"{word!r}"):
        Doctor.shipped().diagnose([text_source(text)])


def crowded(lines: int) -> Iterator[str]:
    """Lines with the words of a hundred signatures each, none like another."""
    anchors = sorted({anchor for one in SIGNATURES.values() for anchor in one.anchors})
    for at in range(lines):
        yield " ".join(anchors[(7 * at + 13 * number) % len(anchors)] for number in range(120))[: LONGEST - 1]


def test_a_line_with_the_words_of_many_signatures_is_searched_for_some() -> None:
    doctor, tried = Doctor.shipped(), 0
    search = Signature.search

    def counted(signature: Signature, *given: object) -> object:
        nonlocal tried
        tried += 1
        return search(signature, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Signature, "search", counted)
        doctor.diagnose([text_source("\n".join(crowded(10)))])
    assert 0 < tried <= 450


def test_repeats_of_classes_get_an_end_and_nothing_else_changes() -> None:
    assert bounded(r"a\w*b\S+c[^)]*d +e.*f(?:x|y)*g\s{2}h?\.*") == (
        r"a\w{0,40}b\S{1,80}c[^)]{0,200}d {1,200}e.*f(?:x|y)*g\s{2}h?\.{0,200}"
    )
    assert bounded(r"\w*?x\d++") == r"\w{0,40}?x\d{1,40}+"
