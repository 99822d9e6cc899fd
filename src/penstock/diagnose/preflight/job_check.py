"""Before the workers of a job start: its nodes by themselves, beside each other, and in pairs.

Nodes are checked in the job's own environment, because that is what will run there. So a check that fails may be the
environment's fault as well as the node's: it is made again by the platform's own Python, and what does not fail there
is not the node's. Without that a job with a broken library would have one node after the other taken out of use.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.core import ModuleCall, NodeAnswer, NodeReach, PreflightLevel, PreflightVerdict
from penstock.diagnose.preflight.node import DEVICES_CHECK
from penstock.diagnose.preflight.nodes import MODULE, compared, report_of
from penstock.diagnose.preflight.pair_trial import PairTrial
from penstock.diagnose.preflight.pairing import locate
from penstock.diagnose.preflight.reaching import run_all
from penstock.diagnose.preflight.report import Check, NodeReport, Status, found_in

_LIMIT_S = {PreflightLevel.QUICK: 300.0, PreflightLevel.FULL: 900.0}
_BESIDE = ("versions", "clock beside others")


def check_for_job(places: Mapping[str, str], reach: NodeReach, level: PreflightLevel) -> PreflightVerdict:
    """A :class:`~penstock.core.JobCheck`: first every place by itself, then those that are fit together."""
    check = _JobCheck(nodes=places, reach=reach, level=level)
    check.each()
    check.beside_each_other()
    check.in_pairs()
    return check.verdict()


@dataclass(slots=True, kw_only=True)
class _JobCheck:
    """``nodes`` are those of the places; ``reports`` of places that did well in the job's own environment."""

    nodes: Mapping[str, str]
    reach: NodeReach
    level: PreflightLevel
    began: float = field(default_factory=time.time)
    reports: dict[str, NodeReport] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def verdict(self) -> PreflightVerdict:
        fit = () if self.faults else tuple(dict.fromkeys(self._fit(self.nodes).values()))
        return PreflightVerdict(
            fit=fit, unfit=self.unfit, fault="; ".join(self.faults), remarks=tuple(self.remarks)
        )  # fmt: skip

    def each(self) -> None:
        """Every place in the job's environment, and those that fail there once more in the platform's own."""
        answers = {answer.node: answer for answer in self._asked(self.nodes, own=False)}
        found = {place: found_in(answer.output) for place, answer in answers.items()}
        self.reports = {place: replace(each, node=place) for place, each in found.items() if each and each.ok}
        doubted = [place for place in self.nodes if place not in self.reports]
        for answer in self._asked(doubted, own=True):
            second, first = report_of(answer), found[answer.node]
            if first is not None:
                self._judge(answer.node, first, second)
            elif second.ok:
                said = answers[answer.node].last_line
                self.remarks.append(f"the job's environment cannot check its node ({said}); Penstock's own did")
            else:
                self._blame(answer.node, second.failures)

    def beside_each_other(self) -> None:
        """Versions and clocks of places in the same environment; where no version is that of most, nobody is to blame
        more than the others."""
        fit = self._fit(self.reports)
        if not fit:
            return
        checked = compared([self.reports[place] for place in fit], self.began, time.time())
        odd = {each.node: [check for check in each.failures if check.name in _BESIDE] for each in checked}
        odd = {place: checks for place, checks in odd.items() if checks}
        if 2 * len({fit[place] for place in odd}) < len(set(fit.values())):
            for place, checks in odd.items():
                self._blame(place, checks)
        elif odd:
            self.faults.append("; ".join(check.line for checks in odd.values() for check in checks))

    def in_pairs(self) -> None:
        """Collectives between nodes, by one place of each that has PyTorch."""
        members = {node: place for place, node in self._fit(self.reports).items() if "torch" in self._facts(place)}
        if len(members) < 2 or self.faults:
            return
        located = locate(sorted(members.values()), PairTrial(reach=self.reach))
        self.remarks.append(f"collectives in pairs of {len(members)} nodes, rounds: {located.rounds}")
        if located.fabric:
            self.faults.append(f"no pair of {', '.join(sorted(members))} did well in a collective")
        for place in located.bad:
            self.unfit[self.nodes[place]] = "pairs: fails in collectives with nodes that do well with others"
        for link in located.weak_links:
            self.remarks.append(f"the link between {' and '.join(self.nodes[place] for place in link)} is weak")

    def _asked(self, places: Iterable[str], *, own: bool) -> list[NodeAnswer]:
        words = ("--marked", *(("--quick",) if self.level is PreflightLevel.QUICK else ()))
        calls = [ModuleCall(node=place, module=MODULE, words=words, own=own) for place in places]
        return run_all(calls, self.reach, timeout_s=_LIMIT_S[self.level])

    def _judge(self, place: str, first: NodeReport, second: NodeReport) -> None:
        """What fails in both is the node's; so is what a Python without PyTorch could not judge the second time."""
        names = {check.name for check in second.checks}
        failed = {check.name for check in second.failures}
        is_partial = any(check.name == DEVICES_CHECK and check.status is Status.SKIP for check in second.checks)
        confirmed = [c for c in first.failures if c.name in failed or (is_partial and c.name not in names)]
        if confirmed or not second.facts:
            self._blame(place, confirmed or second.failures)
        else:
            self.faults.append(
                f"on {self.nodes[place]}, in the job's environment but not in Penstock's: {first.reason}"
            )

    def _blame(self, place: str, checks: Iterable[Check]) -> None:
        self.unfit.setdefault(self.nodes[place], "; ".join(check.line for check in checks))

    def _fit(self, places: Iterable[str]) -> dict[str, str]:
        return {place: self.nodes[place] for place in places if self.nodes[place] not in self.unfit}

    def _facts(self, place: str) -> Mapping[str, str]:
        return self.reports[place].facts
