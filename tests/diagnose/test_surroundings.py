"""A line that names a cause names it in the middle of what launchers and libraries write around it as well."""

import tomllib
from pathlib import Path

import pytest

from penstock.diagnose import Doctor, Level, shipped_catalogue, text_source

DOCTOR = Doctor.shipped()
SURROUNDINGS = tomllib.loads(Path(__file__).with_name("surroundings.toml").read_text())["surroundings"]
ROOTS = [one for one in shipped_catalogue().signatures.values() if one.level is Level.ROOT]


@pytest.mark.parametrize("around", SURROUNDINGS, ids=lambda around: around["name"])
def test_roots_keep_their_category(around: dict[str, str]) -> None:
    wrong = {}
    for signature in ROOTS:
        text = "\n".join((around["before"], signature.example, around["after"]))
        found = DOCTOR.diagnose([text_source(text)]).category
        if found != signature.category:
            wrong[signature.id] = found
    assert wrong == {}


@pytest.mark.parametrize("around", SURROUNDINGS, ids=lambda around: around["name"])
def test_surroundings_alone_are_never_taken_for_a_sure_cause(around: dict[str, str]) -> None:
    assert DOCTOR.diagnose([text_source(around["before"] + "\n" + around["after"])]).confidence < 0.8
