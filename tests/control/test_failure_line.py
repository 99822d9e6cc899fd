"""The one line about a failure."""

import pytest

from penstock.control.platform.failure_line import failure_line

TRACEBACK = (
    "loading data",
    "[0] Traceback (most recent call last):",
    '[0]   File "train.py", line 3, in <module>',
    "[0]     import notamodule",
    "[0] ModuleNotFoundError: No module named 'notamodule'",
    "[0] ",
)


@pytest.mark.parametrize(
    ("reason", "tail", "code", "expected"),
    [
        ("exit", TRACEBACK, 1,
         "ModuleNotFoundError: No module named 'notamodule' (its script ended by itself with code 1)"),
        ("exit", (*TRACEBACK, "cleaning up, please wait"), 1,
         "ModuleNotFoundError: No module named 'notamodule' (its script ended by itself with code 1)"),
        ("exit", ("usage: train.py", "train.py: error: --lr is missing", ""), 2,
         "train.py: error: --lr is missing (its script ended by itself with code 2)"),
        ("exit", ("[0] [rank0]: Traceback (most recent call last):", "[0] [rank0]: OSError: no room"), 1,
         "OSError: no room (its script ended by itself with code 1)"),
        ("exit", ("step 49", "step 50 0.4931739866733551"), 7,
         "its script ended by itself with code 7; its last line: step 50 0.4931739866733551"),
        ("signal", (), 137, "its process was killed with code 137"),
        ("lost", (), None, "its processes were gone"),
        ("cancelled by ann", ("last words",), None, "cancelled by ann"),
        ("", (), None, ""),
    ],
    ids=["traceback", "after it", "arguments", "torch", "progress", "killed", "lost", "not a failure", "nothing"],
)  # fmt: skip
def test_the_last_words_come_first(reason: str, tail: tuple[str, ...], code: int | None, expected: str) -> None:
    assert failure_line(reason, tail, code) == expected
