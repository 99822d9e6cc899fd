"""Operators with a mistake are found inside of a model, and named; without one nothing is."""

import pytest

torch = pytest.importorskip("torch")

from penstock.diagnose import check_operators  # noqa: E402
from penstock.diagnose.operators.checking import Verdict  # noqa: E402
from tests.diagnose.mutants import MUTANTS, Mutant  # noqa: E402
from tests.diagnose.networks import everything_step  # noqa: E402

KINDS = {
    "wrong axis", "missing transpose", "off-by-one padding", "eps placement", "biased/unbiased variance",
    "missing 1/keep scaling", "wrong reduction", "stale running mean", "lr applied twice", "bias correction missing",
    "sign", "dtype down-cast", "uninitialised tail", "race in reduction",
}  # fmt: skip


def test_there_are_forty_of_every_kind_and_phase() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.kind for mutant in MUTANTS} == KINDS
    assert {mutant.phase for mutant in MUTANTS} == {"forward", "backward", "update"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_and_named_first(mutant: Mutant) -> None:
    updates = torch.optim.SGD if mutant.operator.startswith("SGD") else torch.optim.AdamW
    step = everything_step(updates if mutant.phase == "update" else None)
    with mutant.broken():
        report = check_operators(step)
    assert not report.ok
    first = report.defects[0]
    assert (first.suspect.operator, str(first.suspect.phase)) == (mutant.operator, mutant.phase)
    assert first.verdict is (Verdict.FLAKY if "now and then" in mutant.name else Verdict.CONFIRMED)
    assert [defect.suspect.operator for defect in report.defects if defect.counts] == [mutant.operator]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_sound_model_raises_nothing(dtype: torch.dtype, seed: int) -> None:
    report = check_operators(everything_step(dtype=dtype, seed=seed))
    assert report.ok, report.to_data()
    assert report.defects == ()
    assert report.coverage.unjudged == {}
    assert report.calls > 60


def test_updates_of_a_sound_model_raise_nothing() -> None:
    for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        report = check_operators(everything_step(optimizer))
        assert report.ok, report.to_data()


def test_two_mistakes_at_once_are_both_confirmed_in_the_order_of_the_step() -> None:
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    with (
        by_name["gelu_backward: density subtracted"].broken(),
        by_name["convolution: kernel flipped"].broken(),
    ):
        report = check_operators(everything_step())
    assert [defect.suspect.operator for defect in report.defects] == ["convolution", "gelu_backward"]
    assert {defect.verdict for defect in report.defects} == {Verdict.CONFIRMED}
