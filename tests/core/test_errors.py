"""The error tree: as drawn, with messages in three parts, and able to cross a process boundary."""

import pickle
import re

import pytest

from penstock.core import InputError, PenstockError, UnitError, UnknownNameError, errors


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
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PenstockError)}
    real = {(kind.__name__, kind.__mro__[1].__name__) for kind in classes - {PenstockError}}
    assert len(real) >= 9
    assert _drawn_tree(errors.__doc__ or "") == real


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
