"""From many hits to one cause.

One fault makes all ranks fail, each in its own words and at its own time. The line nearest to the root is taken: one
that names a cause before one that only notices it, a family that explains others before those, and the earliest of
equals. A collective that timed out is what the others noticed: there the rank that had come least far is looked for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import MOST_EVIDENCE, Culprit, Diagnosis, Evidence, Remedy
from penstock.diagnose.hits import TELLING_TIER, Hit, ScriptError
from penstock.diagnose.signatures.catalogue import Catalogue
from penstock.diagnose.signatures.model import Level

_CONFIDENCE = {Level.ROOT: 0.9, Level.PROBABLE: 0.6, Level.SYMPTOM: 0.5, Level.WARNING: 0.4}
_CONFIRMED = 0.05
_SCRIPT_CONFIDENCE = 0.9
_HANGS = "comm.timeout"
_USAGE = re.compile(r"\S+: error: (?:argument |the following arguments |unrecognized arguments)")
"""The last line of Python's argparse."""
_CODE_ABOVE = 2
"""How many lines above the error of a traceback the code is that failed."""
_MENDED = "Mend the script{}: the same again would fail the same way"
_LOOKED_AT = "Look at the script{}; a retry may pass if what it uses was away for a moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that was read; ``last_words`` are the ends of the logs, for a failure that nothing explains.

    ``code`` is what the script ended with by itself, where that is known.
    """

    hits: Sequence[Hit] = ()
    errors: Sequence[ScriptError] = ()
    last_words: Sequence[Evidence] = ()
    code: int | None = None


def resolve(findings: Findings, catalogue: Catalogue) -> Diagnosis:
    """The one cause, or an abstention."""
    best = min(findings.hits, key=lambda hit: hit.weight, default=None)
    error = _first_error(findings)
    if error is not None and not error.passed_on and (best is None or best.tier > error.tier):
        return _script_diagnosis(error, findings)
    if best is not None:
        return _named(best, findings.hits, catalogue)
    if error is not None:
        return Diagnosis(
            cause=f"another process failed first; this is what noticed it: {error.error}",
            fix="Look at the logs of all ranks, the one that ended first above all",
            action=Remedy.FIND_FIRST_ERROR, evidence=(error.evidence,),
        )  # fmt: skip
    return _abstention(findings)


def _first_error(findings: Findings) -> ScriptError | None:
    """The first traceback of a script's own that no signature is about; one that only passes a failure on is last."""
    named_texts = {hit.evidence.text for hit in findings.hits}
    named = {(hit.evidence.source, hit.evidence.line) for hit in findings.hits}
    telling = {(hit.evidence.source, hit.evidence.line) for hit in findings.hits if hit.tier <= TELLING_TIER}
    open_errors = [
        error
        for error in findings.errors
        if error.evidence.text not in named_texts
        and (error.evidence.source, error.evidence.line) not in named
        and telling.isdisjoint(_last_lines(error))
    ]
    return min(open_errors, key=lambda error: (error.passed_on, error.order), default=None)


def _last_lines(error: ScriptError) -> set[tuple[str, int | None]]:
    """Where the code is that failed: a line that a signature knows there says what a bare `AssertionError` does not."""
    line = error.evidence.line
    return set() if line is None else {(error.evidence.source, line - above) for above in range(1, _CODE_ABOVE + 1)}


def _script_diagnosis(error: ScriptError, findings: Findings) -> Diagnosis:
    where = f" at {error.frame}" if error.frame else ""
    others = [other.evidence for other in findings.errors if other.error == error.error and other is not error]
    sure = error.recurs
    return Diagnosis(
        cause=f"the script failed with {error.error}{where}",
        confidence=_SCRIPT_CONFIDENCE if sure else _CONFIDENCE[Level.SYMPTOM],
        fix=_MENDED.format(where) if sure else _LOOKED_AT.format(where),
        action=Remedy.FIX_CODE if sure else Remedy.RETRY_THEN_FIX,
        evidence=(error.evidence, *others)[:MOST_EVIDENCE], culprit=error.culprit,
    )  # fmt: skip


def _named(best: Hit, hits: Sequence[Hit], catalogue: Catalogue) -> Diagnosis:
    signature = best.signature
    same = [hit for hit in hits if hit.signature.category == signature.category]
    confidence = _CONFIDENCE[signature.level]
    if best.culprit or len({hit.evidence.text for hit in same}) > 1:
        confidence += _CONFIRMED
    ordered = sorted(hits, key=lambda hit: (hit.signature.category != signature.category, hit.weight))
    evidence = dict.fromkeys(hit.evidence for hit in [best, *ordered])
    return Diagnosis(
        category=signature.category, confidence=round(min(confidence, 1.0), 2), cause=signature.cause,
        fix=signature.fix, action=signature.action, evidence=tuple(evidence)[:MOST_EVIDENCE],
        culprit=_laggard(same) or best.culprit if signature.category == _HANGS else best.culprit,
        similar=catalogue.similar(signature.category, signature),
    )  # fmt: skip


def _laggard(hits: Sequence[Hit]) -> Culprit | None:
    """The rank that had come least far, if the ranks tell and are not all at the same place."""
    progress = {hit.culprit.rank: hit.progress for hit in reversed(hits) if hit.progress is not None}
    told = {rank: done for rank, done in progress.items() if rank is not None and done is not None}
    if len(set(told.values())) < 2:
        return None
    return Culprit(rank=min(told, key=lambda rank: told[rank]))


def _abstention(findings: Findings) -> Diagnosis:
    evidence = tuple(findings.last_words)[:MOST_EVIDENCE]
    usage = next((each.text for each in evidence if _USAGE.match(each.text)), None)
    if usage is not None:
        return Diagnosis(
            cause=f"the script does not accept its arguments: {usage}", fix="Correct the command of the job",
            action=Remedy.FIX_CONFIG, evidence=evidence,
        )  # fmt: skip
    if findings.code is not None:
        return Diagnosis(
            cause=f"the script ended by itself with code {findings.code}, and nothing that was read says why",
            fix="Look at its last lines, and at where the script ends with that code", action=Remedy.OBSERVE,
            evidence=evidence,
        )  # fmt: skip
    return Diagnosis(
        cause="nothing that was read names a cause",
        fix="Give the logs of all ranks and the kernel log (`dmesg`); NCCL_DEBUG=INFO makes NCCL say more",
        action=Remedy.OBSERVE, evidence=evidence,
    )  # fmt: skip
