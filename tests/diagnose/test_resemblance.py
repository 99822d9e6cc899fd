"""Where no signature fits, the words of a log may resemble those of a category; ordinary messages resemble none."""

import pytest

from penstock.core import SURE
from penstock.diagnose import Catalogue, Doctor, shipped_catalogue, text_source
from penstock.diagnose.resemblance import MOST_LINES, Resemblance, ordinary_messages

DOCTOR = Doctor.shipped()
RESEMBLANCE = Resemblance(shipped_catalogue())
BADGES = {
    "category": {"site.badge": {"group": "infrastructure", "cause": "the badge reader is offline", "fix": "Restart"}},
    "signature": [
        {
            "id": f"site.badge.{number}", "category": "site.badge", "regex": f"badge reader {word} at the turnstile",
            "example": f"fatal: badge reader {word} at the turnstile of hall {number}",
        }
        for number, word in enumerate(("offline", "unplugged", "jammed"))
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("the allocator failed: device memory is exhausted, tried to allocate 2 GiB, 1 GiB is free", "mem.gpu_oom"),
        ("checkpoint shard has unexpected keys: optimizer state does not match the saved world size", "ckpt.layout"),
    ],
)  # fmt: skip
def test_a_new_wording_is_given_the_category_whose_words_it_has(text: str, category: str) -> None:
    near = RESEMBLANCE.nearest(text)
    assert near is not None
    assert (near.category, near.line) == (category, text)


@pytest.mark.parametrize("message", ordinary_messages(), ids=lambda message: message[:30])
def test_ordinary_messages_resemble_nothing(message: str) -> None:
    assert RESEMBLANCE.nearest(message) is None


def test_signatures_of_ones_own_are_resembled_too() -> None:
    doctor = Doctor(shipped_catalogue().extended(BADGES, "site.toml"))
    found = doctor.diagnose(
        [text_source("step 12\nerror: the reader for badges is jammed, badge reader gone at the turnstile\n")]
    )
    assert (found.category, found.confidence) == ("site.badge", 0.3)
    assert found.cause.startswith("the badge reader is offline (")
    assert found.evidence[0].text.startswith("error: the reader for badges")


def test_a_hint_decides_nothing() -> None:
    found = Doctor(shipped_catalogue().extended(BADGES, "site.toml")).diagnose(
        [text_source("fatal: badge reader stuck at the turnstile")]
    )
    assert found.confidence < SURE
    assert not found.would_recur


def test_a_script_error_that_is_sure_is_not_made_into_something_else() -> None:
    header = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    text = header + "KeyError: 'badge reader at the turnstile'\n"
    found = Doctor(shipped_catalogue().extended(BADGES, "site.toml")).diagnose([text_source(text)])
    assert (found.category, found.confidence) == ("unknown", 0.9)


def test_only_the_last_lines_that_speak_of_a_failure_count() -> None:
    catalogue = shipped_catalogue().extended(BADGES, "site.toml")
    early = "fatal: badge reader stuck at the turnstile\n"
    later = "RuntimeError: stack expects each tensor to be equal size\n" * MOST_LINES
    assert Resemblance(catalogue).nearest(early) is not None
    assert Resemblance(catalogue).nearest(early + later) is None


def test_without_examples_nothing_is_resembled() -> None:
    assert (
        Resemblance(Catalogue(categories={}, signatures={})).nearest("fatal error: all is lost, nothing can be done")
        is None
    )
