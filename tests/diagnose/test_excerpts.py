"""Excerpts of public issue threads are given the category that a person gave them."""

import json
import tomllib
from pathlib import Path

import pytest

from penstock.diagnose import Doctor, text_source
from tests.tools import needs

DOCTOR = Doctor.shipped()
_FILES = [Path(__file__).with_name("excerpts.toml"), *sorted((Path(__file__).parent / "excerpts").glob("*.toml"))]
EXCERPTS = [one for file in _FILES for one in tomllib.loads(file.read_text())["excerpt"]]


def named(text: str) -> str:
    return DOCTOR.diagnose([text_source(text)]).category


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda excerpt: excerpt["source"].removeprefix("https://github.com/"))
def test_an_excerpt_is_named(excerpt: dict[str, str]) -> None:
    assert named(excerpt["text"]) == excerpt["category"]


def test_the_collected_examples_are_named() -> None:
    collected = needs.public_data("failure-signatures/signatures.json")
    examples = json.loads(collected.read_text())["signatures"]
    wrong = {one["id"]: named(one["example"]) for one in examples if named(one["example"]) != one["category"]}
    assert wrong == {}
