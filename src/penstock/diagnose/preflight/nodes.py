"""Several nodes at once: each by itself, then in pairs, then beside each other."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.core import InputError, ModuleCall, NodeAnswer, NodeReach
from penstock.diagnose.preflight.pair_trial import PairTrial
from penstock.diagnose.preflight.pairing import Located, locate
from penstock.diagnose.preflight.reaching import run_all
from penstock.diagnose.preflight.report import Check, NodeReport, Status, found_in

MODULE = "penstock.diagnose.preflight"
"""What checks one node."""
_SAME = ("penstock", "python", "torch", "cuda", "nccl", "cudnn", "gpu")
_LARGEST_SKEW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReport:
    """What each node said of itself, and what pairs of them showed."""

    nodes: tuple[NodeReport, ...]
    located: Located | None = None

    @property
    def ok(self) -> bool:
        return all(report.ok for report in self.nodes) and (self.located is None or self.located.ok)

    @property
    def unfit(self) -> dict[str, str]:
        """Nodes that must not be used, with the reason."""
        return {report.node: report.reason for report in self.nodes if not report.ok}

    def to_data(self) -> dict[str, Any]:
        pairs = None if self.located is None else {
            "bad": list(self.located.bad), "weak_links": [list(link) for link in self.located.weak_links],
            "fabric": self.located.fabric, "rounds": self.located.rounds,
        }  # fmt: skip
        return {"ok": self.ok, "unfit": self.unfit, "pairs": pairs, "nodes": [each.to_data() for each in self.nodes]}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesCheck:
    """``words`` are flags of each node's own check, ``least_bytes_s`` what an all-reduce of a pair must reach."""

    nodes: Sequence[str]
    reach: NodeReach
    words: Sequence[str] = ()
    timeout_s: float = 300.0
    pair_timeout_s: float = 120.0
    least_bytes_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.nodes or len(set(self.nodes)) != len(self.nodes) or not all(self.nodes):
            raise InputError(f"nodes {', '.join(self.nodes)!r}", "names, each once", 'For example "a,b,c"')

    def run(self, say: Callable[[str], None] = lambda _: None) -> NodesReport:
        say(f"each of {len(self.nodes)} nodes by itself")
        calls = [ModuleCall(node=node, module=MODULE, words=("--marked", *self.words)) for node in self.nodes]
        began = time.time()
        answers = run_all(calls, self.reach, timeout_s=self.timeout_s)
        reports = compared(list(map(report_of, answers)), began, time.time())
        able = [report.node for report in reports if report.ok]
        if len(able) < 2:
            return NodesReport(nodes=tuple(reports))
        say(f"{len(able)} nodes in pairs")
        located = locate(able, self.trial)
        return NodesReport(nodes=tuple(with_pairs(reports, located)), located=located)

    @property
    def trial(self) -> PairTrial:
        return PairTrial(reach=self.reach, timeout_s=self.pair_timeout_s, least_bytes_s=self.least_bytes_s)


def compared(reports: Sequence[NodeReport], began: float, ended: float) -> list[NodeReport]:
    """Versions must be those of most nodes, clocks within the time that the check took."""
    usual = {fact: Counter(report.facts.get(fact, "none") for report in reports).most_common(1)[0][0] for fact in _SAME}
    return [replace(each, checks=(*each.checks, *_beside(each, usual, began, ended))) for each in reports]


def _beside(report: NodeReport, usual: dict[str, str], began: float, ended: float) -> Iterator[Check]:
    if not report.facts:
        return
    other = [f"{fact} {report.facts.get(fact, 'none')}" for fact, wanted in usual.items()
             if report.facts.get(fact, "none") != wanted]  # fmt: skip
    wanted = ", ".join(f"{fact} {value}" for fact, value in usual.items() if value != "none")
    yield Check(name="versions", status=Status.FAIL if other else Status.PASS, figure=", ".join(other) or "the same",
                expected=wanted, next="Install what the other nodes have" if other else "")  # fmt: skip
    skew = max(began - report.clock, report.clock - ended, 0.0)
    yield Check(name="clock beside others", status=Status.PASS if skew <= _LARGEST_SKEW_S else Status.FAIL,
                figure=f"{skew:.1f} s off", expected=f"within {_LARGEST_SKEW_S:g} s",
                next="" if skew <= _LARGEST_SKEW_S else "Set its clock: run chrony or ntpd")  # fmt: skip


def with_pairs(reports: Sequence[NodeReport], located: Located) -> Iterator[NodeReport]:
    """What pairs showed, as a check of each node that took part."""
    for report in reports:
        if report.ok:
            yield replace(report, checks=(*report.checks, _paired(report.node, located)))
        else:
            yield report


def _paired(node: str, located: Located) -> Check:
    wanted = "collectives that are right and in time"
    if located.fabric:
        return Check(name="pairs", status=Status.FAIL, figure="no pair of nodes did well", expected=wanted,
                     next="Look at the network between all of them: firewall, interface, routes")  # fmt: skip
    if node in located.bad:
        return Check(name="pairs", status=Status.FAIL, figure="fails with nodes that do well with others",
                     expected=wanted, next="Look at its interface, driver and NCCL settings")  # fmt: skip
    weak = [" and ".join(link) for link in located.weak_links if node in link]
    if weak:
        return Check(name="pairs", status=Status.WARN, figure=f"the link between {', '.join(weak)} is weak",
                     expected=wanted, next="Look at the cables and switches between them")  # fmt: skip
    return Check(name="pairs", status=Status.PASS, figure="did well", expected=wanted)


def report_of(answer: NodeAnswer) -> NodeReport:
    """What a node said, under the name that it was asked by; a silent one has failed."""
    found = found_in(answer.output)
    if found is not None:
        return replace(found, node=answer.node)
    how = "took too long" if answer.code is None else f"ended with {answer.code}"
    told = Check(name="reach", status=Status.FAIL, figure=f"{how}, its last line: {answer.last_line}",
                 expected="a report", next="Run `penstock preflight` there by hand")  # fmt: skip
    return NodeReport(node=answer.node, seconds=0.0, clock=0.0, checks=(told,))
