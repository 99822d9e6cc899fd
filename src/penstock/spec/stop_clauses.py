"""How much there is to do, by a job file: so many steps or epochs, or until a metric says that it is enough.

The clause ``until …`` is text or a mapping, and always comes with the most there is to do.

::

    until val_acc >= 0.92, at most 50 epochs
    until val_loss stops improving for 5 epochs, at most 100 epochs
    until fid stops falling by 0.1 for 2_000 steps, at most 1M steps, if unlikely stop

"Improving" means what people mean by the metric's name; where the name does not tell, "rising" or "falling" does.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core import InputError, StopRule, UnitError, UnknownNameError, Unlikely, brief, is_metric_name
from penstock.spec.quantities import Amount, read_amount, shown

FORMS = '"val_acc >= 0.92" or "val_loss stops improving for 5 epochs"'
_REACHES = re.compile(r"(\S+)\s*(>=|<=|≥|≤)\s*(\S+)")
_STOPS = re.compile(r"(\S+)\s+stops\s+(improving|rising|falling)(?:\s+by\s+(\S+))?\s+for\s+(.+)", re.DOTALL)
_NEARLY = re.compile(r"\S+\s*(>|<|==?)\s*\S+")
_SMALLER_IS_BETTER = re.compile(
    r"(^|[_./@-])(loss|losses|err|error|errors|ppl|perplexity|nll|bpb|bpc|wer|cer|ter|mse|mae|rmse|fid|kl|regret)"
    r"($|[_./@-])|loss$|error$", re.IGNORECASE,
)  # fmt: skip
_LARGER_IS_BETTER = re.compile(
    r"(^|[_./@-])(acc|accuracy|acc1|acc5|top1|top5|f1|auc|auroc|map|miou|iou|dice|bleu|rouge|score|precision|recall|"
    r"reward|return|psnr|ssim|r2|mrr|ndcg|em)($|[_./@-])|acc$|accuracy$|score$", re.IGNORECASE,
)  # fmt: skip
_UNTIL = re.compile(
    r"\s*until\s+(?P<until>.*?)"
    r"(?:\s*,\s*at\s+most\s+(?P<most>[^,]*?)(?:\s*,\s*if\s+unlikely\s+(?P<unlikely>.*?))?)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_CLAUSE = 1000
_WORK_KEYS = ("until", "at_most", "if_unlikely")
_NEEDS_MOST = ("until CONDITION, at most STEPS OR EPOCHS", 'Try "until val_acc >= 0.92, at most 50 epochs"')
_KEYS = ("metric", "at_least", "at_most", "patience", "least_gain", "direction")
_CONDITIONS = ("at_least", "at_most", "patience")
DIRECTIONS = ("improving", "rising", "falling")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopClause:
    """A :class:`~penstock.core.StopRule` whose patience is still in the unit that the file has."""

    metric: str
    rising: bool
    target: float | None = None
    patience: Amount | None = None
    least_gain: float = 0.0
    if_unlikely: Unlikely = Unlikely.TELL

    def __str__(self) -> str:
        if self.target is not None:
            return f"{self.metric} {'>=' if self.rising else '<='} {self.target!r}"
        gain = f" by {self.least_gain!r}" if self.least_gain else ""
        return f"{self.metric} stops {'rising' if self.rising else 'falling'}{gain} for {self.patience}"

    def rule(self, patience_steps: float | None) -> StopRule:
        return StopRule(
            metric=self.metric, rising=self.rising, target=self.target, patience=patience_steps,
            least_gain=self.least_gain, if_unlikely=self.if_unlikely,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkDemand(Amount):
    """All the work of a job; with a clause ``until`` the most of it."""

    until: StopClause | None = None

    def __str__(self) -> str:
        amount = Amount.__str__(self)
        if self.until is None:
            return amount
        unlikely = self.until.if_unlikely
        last = "" if unlikely is Unlikely.TELL else f", if unlikely {unlikely}"
        return f"until {self.until}, at most {amount}{last}"


def read_work(value: object) -> WorkDemand:
    """Work in steps or epochs, or until a metric says that it is enough."""
    if isinstance(value, Mapping):
        return _work_from_mapping(value)
    found = _UNTIL.fullmatch(_words(value)) if isinstance(value, str) else None
    if found is None:
        return _demand(value)
    if found["most"] is None:
        raise UnitError(f"{shown(value)} has no end if that is never reached", *_NEEDS_MOST)
    return _demand(found["most"], read_clause(found["until"], found["unlikely"]))


def _words(text: str) -> str:
    """A clause with single blanks between its words; nothing where it is too long to be one."""
    return brief(" ".join(text.split()), _LONGEST_CLAUSE)


def _work_from_mapping(value: Mapping[object, object]) -> WorkDemand:
    for key in value:
        if key not in _WORK_KEYS:
            raise UnknownNameError.of("key in work", str(key), _WORK_KEYS)
    if "until" not in value or "at_most" not in value:
        raise UnitError(f"work with {', '.join(map(str, value)) or 'nothing'}", *_NEEDS_MOST)
    return _demand(value["at_most"], read_clause(value["until"], value.get("if_unlikely")))


def _demand(amount: object, until: StopClause | None = None) -> WorkDemand:
    most = read_amount(amount)
    return WorkDemand(most.value, most.unit, until)


def read_clause(value: object, if_unlikely: object = None) -> StopClause:
    """The clause in what stands after ``until``."""
    behaviour = Unlikely.TELL if if_unlikely is None else _behaviour(if_unlikely)
    if isinstance(value, Mapping):
        return _from_mapping(value, behaviour)
    text = _words(value) if isinstance(value, str) else ""
    if found := _REACHES.fullmatch(text):
        rising = found[2] in (">=", "≥")
        target = _number(found[3], f"the target of {found[1]}")
        return StopClause(metric=_metric(found[1]), rising=rising, target=target, if_unlikely=behaviour)
    if found := _STOPS.fullmatch(text):
        return _stopping(found[1], found[2], found[4], found[3] or 0.0, behaviour)
    hint = "Write >= or <=" if _NEARLY.fullmatch(text) else f"Try {FORMS}"
    raise InputError(f"{shown(value)} is no condition to train until", "METRIC >= NUMBER, METRIC <= NUMBER, or "
                     "METRIC stops improving for STEPS OR EPOCHS", hint)  # fmt: skip


def _from_mapping(value: Mapping[object, object], behaviour: Unlikely) -> StopClause:
    for key in value:
        if key not in _KEYS:
            raise UnknownNameError.of("key in work.until", str(key), _KEYS)
    given = [key for key in _CONDITIONS if key in value]
    if "metric" not in value or len(given) != 1:
        raise InputError(
            f"work.until with {', '.join(map(str, value)) or 'nothing'}",
            "metric, and one of at_least, at_most and patience", "Try {metric: val_acc, at_least: 0.92}",
        )  # fmt: skip
    if given == ["patience"]:
        direction = str(value.get("direction", "improving"))
        return _stopping(str(value["metric"]), direction, value["patience"], value.get("least_gain", 0.0), behaviour)
    if extra := [key for key in ("least_gain", "direction") if key in value]:
        raise InputError(f"{extra[0]} without patience", "it beside patience", f"Remove {extra[0]}")
    metric = _metric(str(value["metric"]))
    target = _number(value[given[0]], f"the target of {metric}")
    return StopClause(metric=metric, rising=given == ["at_least"], target=target, if_unlikely=behaviour)


def _stopping(metric: str, direction: str, patience: object, gain: object, behaviour: Unlikely) -> StopClause:
    if direction not in DIRECTIONS:
        raise UnknownNameError.of("direction", direction, DIRECTIONS)
    name = _metric(metric)
    return StopClause(
        metric=name, rising=_is_rising(name) if direction == "improving" else direction == "rising",
        patience=read_amount(patience), least_gain=abs(_number(gain, "the least gain")), if_unlikely=behaviour,
    )  # fmt: skip


def improves_upward(metric: str) -> bool | None:
    """Whether larger values of a metric are better, as far as its name tells."""
    falls, rises = bool(_SMALLER_IS_BETTER.search(metric)), bool(_LARGER_IS_BETTER.search(metric))
    return None if falls == rises else rises


def _is_rising(metric: str) -> bool:
    rises = improves_upward(metric)
    if rises is None:
        raise InputError(
            f"nobody can tell from its name when {metric} improves", "a direction",
            f'Write "{metric} stops falling for …" or "{metric} stops rising for …"',
        )  # fmt: skip
    return rises


def _metric(name: str) -> str:
    if not is_metric_name(name):
        raise InputError(f"{name[:80]!r} is not the name of a metric", "a name as scripts log it", 'Try "val_acc"')
    return name


def _number(value: object, what: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        number = (
            float(value.removesuffix("%").strip()) / 100 if isinstance(value, str) and "%" in value else float(value)
        )
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise UnitError(f"{what} is {str(value)[:60]!r}", "a finite number", "Try 0.92") from None
    return number


def _behaviour(value: object) -> Unlikely:
    text = str(value).strip().lower().replace("_", " ").replace("-", " ")
    try:
        return Unlikely(text)
    except ValueError:
        raise UnknownNameError.of("way to treat an unlikely target", text, [str(each) for each in Unlikely]) from None
