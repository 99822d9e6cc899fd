"""``preflight`` in a job file: every way to say it, and what cannot be meant."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import InputError, PreflightLevel, PreflightRule
from penstock.spec import from_flags, job, parse_job, to_mapping

DAY_S = 86_400.0


def rule(given: Any) -> PreflightRule | None:
    file = job(script="train.py", work=10, preflight=given)
    again = parse_job(to_mapping(file))
    assert again.preflight == file.preflight, "kept as it was said"
    return None if file.preflight is None else file.preflight.rule


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, None),
        ("off", None),
        (False, None),
        ({"level": "off"}, None),
        ("quick", PreflightRule(level=PreflightLevel.QUICK, again_after_s=DAY_S, from_devices=1)),
        ("FULL", PreflightRule(level=PreflightLevel.FULL)),
        ({"from_devices": 16}, PreflightRule(from_devices=16)),
        ({"level": "full", "again_after": "90m"}, PreflightRule(level=PreflightLevel.FULL, again_after_s=5400.0)),
        ({"again_after": "0s"}, PreflightRule(again_after_s=0.0)),
    ],
)
def test_words_and_mappings_are_understood(given: Any, meant: PreflightRule | None) -> None:
    assert rule(given) == meant


def test_off_is_told_from_nothing_said() -> None:
    """What the server's configuration says holds for the second alone."""
    assert job(script="train.py", work=10, preflight="off").preflight is not None
    assert job(script="train.py", work=10).preflight is None


def test_a_flag_replaces_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text("script: train.py\nwork: 10 steps\npreflight: off\n")
    file = from_flags(file=tmp_path / "job.yaml", preflight="full")
    assert file.preflight is not None
    assert file.preflight.level is PreflightLevel.FULL


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("thorough", "preflight.*thorough.*full, off, quick"),
        (True, "preflight.*True.*full, off, quick"),
        ({"from_devices": 0}, "preflight.from_devices"),
        ({"again_after": "soon"}, "preflight.again_after"),
        ({"after": "1h"}, "after"),
        ([1], "preflight"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=f"(?s){complaint}"):
        job(script="train.py", work=10, preflight=given)
