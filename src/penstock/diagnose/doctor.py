"""Reading everything there is about a failed run, and naming its cause."""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import BinaryIO

from penstock.core import MOST_EVIDENCE, SURE, Culprit, Diagnosis, Evidence, clean_text
from penstock.diagnose.cascade import Findings, resolve
from penstock.diagnose.facts import FACTS, RunFacts
from penstock.diagnose.hits import Hit, ScriptError
from penstock.diagnose.logs.gram_filter import GramFilter
from penstock.diagnose.logs.lines import LogLine, read_line
from penstock.diagnose.logs.seen_lines import SeenLines
from penstock.diagnose.logs.tracebacks import HEADER, read_traceback
from penstock.diagnose.logs.windows import Candidate, WindowReader
from penstock.diagnose.resemblance import Resemblance
from penstock.diagnose.signatures.catalogue import Catalogue, shipped_catalogue
from penstock.diagnose.signatures.model import Level, Signature

_MOST_HITS = 100
"""Of one signature: what comes later says nothing new."""
_MOST_TRIED = 40
"""Signatures that one line is searched for: ordinary ones have the words of at most 26."""
_SHOWN = 400
_RESEMBLING = 0.3
"""The confidence in what only resembles known messages."""
_HEADER = HEADER.lower().encode()
_TALK = "NCCL INFO"
"""What NCCL says on its way: it tries much that does not succeed, and goes on."""
_Match = tuple[Signature, re.Match[str]]
_PROGRESS = re.compile(r"last completed(?: NCCL)? work: (?P<done>\d+)|SeqNum=(?P<stuck>\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """One log by its name; ``rank`` and ``node`` are whose it is, if it is not everybody's."""

    name: str
    open: Callable[[], BinaryIO]
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True)
class Doctor:
    """Names the cause of failures by the signatures of a catalogue.

    O(bytes of the logs) in time; memory is that of a window of a log, the signatures and at most a few hundred lines
    for each of them.
    """

    catalogue: Catalogue

    @classmethod
    def shipped(cls) -> "Doctor":
        """One that knows what comes with us."""
        return cls(shipped_catalogue())

    @cached_property
    def _signatures_by_anchor(self) -> dict[bytes, list[Signature]]:
        found: dict[bytes, list[Signature]] = {}
        for signature in self.catalogue.signatures.values():
            for anchor in signature.anchors:
                found.setdefault(anchor.lower().encode(), []).append(signature)
        return found

    @cached_property
    def _filter(self) -> GramFilter:
        return GramFilter([HEADER, *(anchor for one in self.catalogue.signatures.values() for anchor in one.anchors)])

    def diagnose(self, sources: Iterable[LogSource], facts: RunFacts | None = None) -> Diagnosis:
        """One cause for what all these logs and facts tell."""
        found = _Found()
        for source in (*sources, *_as_sources(facts)):
            reader = WindowReader(self._filter)
            with source.open() as stream:
                for candidate in reader.candidates(stream):
                    self._take_in(candidate, source, found)
            found.ends += _ends(source, reader.tail)
        last_words = [evidence for end in found.ends for evidence in end.last_words]
        code = facts.own_code if facts is not None else None
        findings = Findings(hits=found.hits, errors=found.errors, last_words=last_words, code=code)
        named = resolve(findings, self.catalogue)
        return named if named.known or named.confidence >= SURE else self._resembling(named, found.ends)

    def _resembling(self, unnamed: Diagnosis, ends: Sequence["_LogEnd"]) -> Diagnosis:
        """A hint where no signature fits: what the ends of the logs resemble most, if anything."""
        likenesses = [(near, end) for end in ends if (near := self._resemblance.nearest(end.text)) is not None]
        if not likenesses:
            return unnamed
        near, end = max(likenesses, key=lambda found: found[0].share)
        category = self.catalogue.categories[near.category]
        line = _evidence(near.line, end.source.name, None, end.source.rank)
        return replace(
            unnamed, category=category.name, confidence=_RESEMBLING, fix=category.fix, action=category.action,
            cause=f"{category.cause} (no known wording; its words resemble such messages)",
            evidence=tuple(dict.fromkeys((line, *unnamed.evidence)))[:MOST_EVIDENCE],
            similar=self.catalogue.similar(category.name),
        )  # fmt: skip

    @cached_property
    def _resemblance(self) -> Resemblance:
        return Resemblance(self.catalogue)

    def _take_in(self, candidate: Candidate, source: LogSource, found: "_Found") -> None:
        if found.lines.repeat(candidate.raw):
            return
        signatures = [one for one in self._signatures(candidate) if found.counted[one.id] < _MOST_HITS][:_MOST_TRIED]
        is_header = _HEADER in candidate.literals and len(found.errors) < _MOST_HITS
        if not signatures and not is_header:
            return
        line = read_line(candidate.text)
        speaker = Culprit(rank=source.rank if line.rank is None else line.rank, node=line.node or source.node)
        evidence = _evidence(line.text, source.name, candidate.number, speaker.rank)
        order = len(found.hits) + len(found.errors)
        is_talk = _TALK in line.text
        if is_header:
            found.errors += _script_errors(candidate, line, evidence, speaker, order)
        asked = [one for one in signatures if one.level is Level.WARNING or not is_talk]
        matches = [
            (one, match)
            for one in asked
            if (match := one.search(line.text, lambda: candidate.surroundings)) and _counts_fit(match)
        ]
        for signature, match in _uncovered(matches):
            found.counted[signature.id] += 1
            found.hits.append(
                Hit(
                    signature=signature, evidence=evidence, culprit=_culprit(match, speaker, line), order=order,
                    at=line.at, progress=_progress(line.text),
                )
            )  # fmt: skip

    def _signatures(self, candidate: Candidate) -> Iterable[Signature]:
        known = self._signatures_by_anchor
        found = (signature for literal in sorted(candidate.literals) for signature in known.get(literal, ()))
        return {signature.id: signature for signature in found}.values()


@dataclass(slots=True)
class _Found:
    """What has been found so far; of one signature at most so many lines, however long the logs are."""

    hits: list[Hit] = field(default_factory=list)
    errors: list[ScriptError] = field(default_factory=list)
    ends: list["_LogEnd"] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    lines: SeenLines = field(default_factory=SeenLines)


def _evidence(text: str, source: str, line: int | None, rank: int | None) -> Evidence:
    return Evidence(text=clean_text(text.strip()[:_SHOWN]), source=source, line=line, rank=rank)


def _script_errors(
    candidate: Candidate, line: LogLine, header: Evidence, culprit: Culprit, order: int
) -> Iterator[ScriptError]:
    after = candidate.after.decode("utf-8", "replace")
    found = read_traceback(line, after)
    if found is not None:
        evidence = _evidence(found.error, header.source, (header.line or 0) + found.below, header.rank)
        yield ScriptError(
            name=found.short_name, error=evidence.text, frame=found.frame, owned=found.owned, evidence=evidence,
            culprit=culprit, order=order,
        )  # fmt: skip


def _uncovered(matches: Sequence[_Match]) -> list[_Match]:
    """Those of a line that are not within the words that a signature of another category covers."""
    covering = [(signature.category, match.span()) for signature, match in matches if signature.covers]
    return [
        (signature, match)
        for signature, match in matches
        if not any(
            category != signature.category and first <= match.start() and match.end() <= last
            for category, (first, last) in covering
        )
    ]


def _culprit(found: re.Match[str], spoken: Culprit, line: LogLine) -> Culprit:
    """Whom a line is about: whom it names, else who says it."""
    named = {key: value for key, value in found.groupdict().items() if value and key in ("rank", "node", "device")}
    rank = int(named["rank"]) if named.get("rank", "").isdigit() else spoken.rank
    return Culprit(rank=rank, node=named.get("node", spoken.node), device=named.get("device", line.device))


def _counts_fit(found: re.Match[str]) -> bool:
    """Of a barrier that was not passed: more workers than the world has means a stale store, fewer that some miss.

    Which of the two a signature means is said by the name of its group: ``crowd`` or ``joined``, beside ``world``.
    """
    named = found.groupdict()
    if not named.get("world"):
        return True
    world = int(named["world"])
    return int(named["crowd"]) > world if named.get("crowd") else int(named.get("joined") or 0) <= world


def _progress(text: str) -> int | None:
    """The last collective that a rank had completed: the one before that which timed out, or the one it names."""
    match = _PROGRESS.search(text)
    if match is None:
        return None
    return int(match["done"]) if match["done"] else int(match["stuck"]) - 1


@dataclass(frozen=True, slots=True)
class _LogEnd:
    """The last lines of a log."""

    source: LogSource
    text: str

    @property
    def last_words(self) -> list[Evidence]:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return [_evidence(read_line(line).text, self.source.name, None, self.source.rank) for line in lines[-1:]]


def _ends(source: LogSource, tail: bytes) -> list[_LogEnd]:
    return [] if source.name == FACTS else [_LogEnd(source, tail.decode("utf-8", "replace"))]


def _as_sources(facts: RunFacts | None) -> tuple[LogSource, ...]:
    text = "\n".join(facts.lines()).encode() if facts is not None else b""
    return (LogSource(name=FACTS, open=lambda: io.BytesIO(text)),) if text else ()
