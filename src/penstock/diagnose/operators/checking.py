"""The first wrong operator of a model: suspects by their local error, verified by rebinding them one by one.

The idea of binding an operator to a reference without touching the model, and of verifying a location by rebinding
only the suspect, is of the meta-operator method (Gu et al., Chinese Journal of Computers 2022); the rules here are
ours. The reference run has every operator bound to its reference; in the *healed* run only suspects are, and its
distance from the reference is what rounding does. Then each suspect in turn is let loose among references. One that
alone moves the outcome ten times further than rounding does is *confirmed*.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.diagnose.operators.oracle import Source
from penstock.diagnose.operators.tracing import EVERYTHING, Coverage, OperatorTrace, Phase, Suspect
from penstock.diagnose.operators.training_step import Outcome, TrainingStep
from penstock.diagnose.operators.updates import CheckedUpdates

_TELLING = 10.0
"""How much further from the reference a confirmed suspect moves the outcome than rounding does."""
_SMALLEST = 1e-9
"""Relative change of an outcome below which nothing is confirmed."""


class Verdict(StrEnum):
    """What is thought of a suspect after the model ran with it and without it."""

    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    WITHOUT_EFFECT = "without effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A suspect and its verdict: how far the outcome is from the reference with it, and with all suspects healed."""

    suspect: Suspect
    verdict: Verdict
    with_it: float
    healed: float

    @property
    def inputs(self) -> str:
        return describe(self.suspect)

    @property
    def counts(self) -> bool:
        return self.verdict is not Verdict.WITHOUT_EFFECT

    def to_data(self) -> dict[str, Any]:
        suspect = self.suspect
        return {
            "operator": suspect.operator, "kind": suspect.kind, "phase": str(suspect.phase),
            "verdict": str(self.verdict), "first_call": suspect.number, "wrong_calls": suspect.calls,
            "error": _finite(suspect.error), "judged_by": str(suspect.source), "inputs": self.inputs,
            "discrepancy_with_it": _finite(self.with_it), "discrepancy_healed": _finite(self.healed),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """What a check of a model found; the first defect is the one to look at."""

    defects: tuple[Defect, ...]
    coverage: Coverage
    calls: int

    @property
    def ok(self) -> bool:
        return not any(defect.counts for defect in self.defects)

    def to_data(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "calls": self.calls,
            "operators": len(self.coverage.operators),
            "judged_by": {str(source): count for source, count in self.coverage.by_source.items()},
            "first_not_finite": self.coverage.first_not_finite or None,
            "unjudged": dict(sorted(self.coverage.unjudged.items())),
            "defects": [defect.to_data() for defect in self.defects],
        }


def check_operators(step: TrainingStep) -> OperatorReport:
    """Trace, and verify what is suspect: one run, and two and more only where something is."""
    trace, updates, reference = _traced(step, within_updates=False)
    if updates.unjudged or any(error > 1 for error in updates.errors.values()):
        trace, updates, reference = _traced(step, within_updates=True)
    suspects = {**trace.suspects, **_update_suspects(updates, trace)}
    defects = _verified(step, suspects, reference) if suspects else []
    return OperatorReport(defects=tuple(sorted(defects, key=_order)), coverage=trace.coverage, calls=trace.calls)


def _traced(step: TrainingStep, *, within_updates: bool) -> tuple[OperatorTrace, CheckedUpdates, Outcome]:
    """Everything judged and bound to its reference."""
    trace, updates = OperatorTrace(EVERYTHING, within_updates=within_updates), CheckedUpdates(rebound=EVERYTHING)
    return trace, updates, step.run(trace, updates)


def _update_suspects(updates: CheckedUpdates, trace: OperatorTrace) -> dict[str, Suspect]:
    """Updates that are wrong although every operator inside of them is right."""
    if any(suspect.phase is Phase.UPDATE for suspect in trace.suspects.values()):
        return {}
    return {
        name: Suspect(
            operator=name, kind=name, phase=Phase.UPDATE, number=trace.calls, error=error, source=Source.REFERENCE
        )
        for name, error in updates.errors.items()
        if error > 1
    }


def _verified(step: TrainingStep, suspects: dict[str, Suspect], reference: Outcome) -> list[Defect]:
    healed = _run(step, suspects.__contains__)
    return [_defect(suspect, _run(step, _all_but(name)), healed, reference) for name, suspect in suspects.items()]


def _defect(suspect: Suspect, loose: Outcome, healed: Outcome, reference: Outcome) -> Defect:
    """Updates are compared among references only: what rounding does to gradients, optimizers may magnify."""
    rounding = 0.0 if suspect.phase is Phase.UPDATE else healed.distance(reference, suspect.phase)
    alone = loose.distance(reference, suspect.phase)
    told = alone > max(_TELLING * rounding, _SMALLEST)
    verdict = Verdict.FLAKY if suspect.flaky else Verdict.CONFIRMED if told else Verdict.WITHOUT_EFFECT
    return Defect(suspect=suspect, verdict=verdict, with_it=alone, healed=rounding)


def _all_but(name: str) -> Callable[[str], bool]:
    return lambda each: each != name


def _run(step: TrainingStep, rebound: Callable[[str], bool]) -> Outcome:
    trace = OperatorTrace(rebound, judging=False, within_updates=True)
    return step.run(trace, CheckedUpdates(rebound=rebound))


def _order(defect: Defect) -> tuple[bool, int]:
    """Those that count first, in the order in which a step meets them."""
    return not defect.counts, defect.suspect.number


def describe(suspect: Suspect) -> str:
    """Inputs of the first wrong call: shapes, dtypes, layouts."""
    if suspect.call is None:
        return ""
    told = []
    for tensor in suspect.call.tensors():
        layout = "" if tensor.is_contiguous() else " not contiguous"
        dtype = str(tensor.dtype).removeprefix("torch.")
        told.append(f"{dtype}[{', '.join(map(str, tensor.shape))}]{layout}")
    return ", ".join(told)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
