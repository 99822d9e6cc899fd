"""The error tree: as drawn, with messages in three parts, and able to cross a process boundary."""

import pickle
import re
from pathlib import Path

import pytest

from penstock.core import InputError, Strictness, UnitError, UnknownNameError, errors
from penstock.scheduler import FINAL
from penstock.wire import ACTIVE, OVER, JobPhase, MissingError, RequestError, UnavailableError, error_from, problem
from tests.core.error_tree import ancestors, error_classes, inherited

DOCS = Path(__file__).parents[2] / "docs"


def _drawn_tree(text: str) -> set[tuple[str, str]]:
    """(child, parent) of every line drawn with branches."""
    edges, path = set(), ["PenstockError"]
    for line in text.splitlines():
        drawn = re.match(r"    ((?:│   |    )*)[├└]── (\w+)", line)
        if drawn:
            depth = len(drawn[1]) // 4
            path = [*path[: depth + 1], drawn[2]]
            edges.add((path[-1], path[-2]))
    return edges


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    real = {(name, known.bases[0]) for name, known in error_classes().items() if name != "PenstockError"}
    assert len(real) >= 30
    assert _drawn_tree(errors.__doc__ or "") == real


def test_every_row_of_the_documented_table_is_true_and_none_is_missing() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d+) \| (\d{3}) `(\w+)` \|", (DOCS / "errors.md").read_text(), re.M)
    documented = {name: (room, int(exit_code), int(status), code) for name, room, exit_code, status, code in rows}
    assert documented == {name: _facts(name) for name in error_classes()}


def _facts(name: str) -> tuple[str, int, int, str]:
    """Room, exit code, and what the API answers if a request ends with it."""
    answer = (500, "internal")
    if "InputError" in ancestors(name):
        answer = inherited(name, "status") or 422, inherited(name, "code") or "invalid"
    return error_classes()[name].room, inherited(name, "exit_code"), *answer


def test_the_api_answers_by_the_same_table() -> None:
    for kind in (InputError, UnitError, RequestError, MissingError, UnavailableError):
        body = problem(kind("six", "a number", "Try 6"))
        assert (body["status"], body["code"]) == _facts(kind.__name__)[2:]
        assert type(error_from(body)) in (kind, InputError)


def test_the_phases_a_job_never_leaves_are_those_of_the_scheduler() -> None:
    assert {phase.value for phase in OVER} == {state.value for state in FINAL}
    assert set(ACTIVE) | OVER == set(JobPhase)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("six", "a number", "Try 6"), "six. Allowed: a number. Try 6."),
        (("six",), "six."),
        (("six", "", "Try 6."), "six. Try 6."),
        (("six", "a number", "Did you mean 6?"), "six. Allowed: a number. Did you mean 6?"),
        (("six", "1, 2, …"), "six. Allowed: 1, 2, …"),
    ],
)
def test_a_message_says_what_was_given_what_is_allowed_and_what_next(parts: tuple[str, ...], message: str) -> None:
    assert str(InputError(*parts)) == message


@pytest.mark.parametrize("kind", [InputError, UnitError, UnknownNameError])
def test_an_input_error_survives_pickling_with_its_parts(kind: type[InputError]) -> None:
    error = kind("six", "a number", "Try 6")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.given, copy.allowed, copy.hint, str(copy)) == ("six", "a number", "Try 6", str(error))


def test_an_unknown_name_suggests_the_nearest() -> None:
    error = UnknownNameError.of("policy", "elasticflwo", ["fifo", "elasticflow", "edf"], "see the list")
    assert str(error) == ("unknown policy 'elasticflwo'. Allowed: edf, elasticflow, fifo. Did you mean 'elasticflow'?")


def test_a_name_near_nothing_gets_the_general_hint() -> None:
    error = UnknownNameError.of("policy", "qqq", ["fifo", "edf"], "`penstock policies` lists them")
    assert str(error) == "unknown policy 'qqq'. Allowed: edf, fifo. `penstock policies` lists them."


def test_members_of_an_enumeration_are_suggested_as_they_are_written() -> None:
    error = UnknownNameError.of("strictness", "sft", Strictness)
    assert str(error) == "unknown strictness 'sft'. Allowed: hard, soft. Did you mean 'soft'?"
