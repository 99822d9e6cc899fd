"""What ``make mutants`` changes, and how it finds out which tests reach it."""

import ast
from pathlib import Path

from tests.tools.mutants import CHOSEN_S, ROOT, Coverage, mutants_of, sample

FILE = Path("src/penstock/example.py")
MODULE = b'''
LIMIT_S = 5.0

def room(free: int = 3, *, asked: "list[int]") -> int:
    """Text with 1 and 2."""
    assert free > 0
    if free <= LIMIT_S and asked:
        asked.append(max(free, 1))
    _log.info("%d of %d", free, 7)
    return f"{free + 1}" if free is None else free - 2
'''


def changes(content: bytes) -> set[tuple[str, str]]:
    return {(each.old, each.new) for each in mutants_of("core", FILE, content)}


def test_one_expression_or_statement_is_changed_at_a_time() -> None:
    assert changes(MODULE) == {
        ("5.0", "(6.0)"), ("5.0", "(4.0)"), ("3", "(4)"), ("3", "(2)"), ("1", "(2)"), ("1", "(0)"), ("2", "(3)"),
        ("2", "(1)"), ("free <= LIMIT_S", "(free < LIMIT_S)"), ("free <= LIMIT_S", "(free > LIMIT_S)"),
        ("free <= LIMIT_S and asked", "(free <= LIMIT_S or asked)"),
        ("free <= LIMIT_S and asked", "(not (free <= LIMIT_S and asked))"),
        ("asked.append(max(free, 1))", "pass"), ("max(free, 1)", "(min(free, 1))"),
        ("free is None", "(free is not None)"), ("free - 2", "(free + 2)"),
    }  # fmt: skip
    for each in mutants_of("core", FILE, MODULE):
        ast.parse(each.changed(MODULE))


def test_probes_stand_where_the_change_would_or_in_the_functions_of_what_an_import_evaluates() -> None:
    for number, each in enumerate(mutants_of("core", FILE, MODULE)):
        probed = MODULE
        for place, probe in sorted(each.probes(number), reverse=True):
            probed = probed[:place] + probe.encode() + probed[place:]
        text = ast.unparse(ast.parse(probed))
        assert text.count(f".hit({number})") == 1
        assert "LIMIT_S = __import__" not in text, "importing a module tells nothing of a test"


def test_a_seed_names_a_sample_without_overlaps() -> None:
    drawn = sample(["spec"], 60, seed=7)
    assert drawn == sample(["spec"], 60, seed=7) != sample(["spec"], 60, seed=8)
    assert len(drawn) == 60
    for one in drawn:
        assert (ROOT / one.file).read_bytes()[one.start : one.end].decode() == one.old
        others = [each for each in drawn if each is not one and each.file == one.file]
        assert all(each.end <= one.start or one.end <= each.start for each in others)


def test_a_mutant_survives_only_what_all_tests_that_reach_it_have_passed() -> None:
    seconds = {"slow": 2 * CHOSEN_S, "quick": 0.1, "fair": 1.0}
    reached = {
        0: {"fair", "quick", "failed"},
        1: {"slow"},
        2: {"slow", "quick"},
        3: set[str](),
        4: {""},
        5: {"cut", "fair"},
    }
    coverage = Coverage(reached, seconds, {"cut"}, True)
    assert coverage.chosen(0) == (["quick", "fair"], True)
    assert coverage.chosen(1) == (["slow"], True), "one test at least"
    assert coverage.chosen(2) == (["quick"], False)
    assert coverage.chosen(3) == ([], True), "no test reaches it"
    assert coverage.chosen(4) == ([], False), "it is evaluated by an import, and who uses it is not known"
    assert coverage.chosen(5) == (["fair"], False), "a test that was cut off could have noticed"
    assert Coverage(reached, seconds, set(), False).chosen(0) == (["quick", "fair"], False)
