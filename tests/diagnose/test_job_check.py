"""Whose fault is it? Verdicts on the nodes of a job from what its places answer; real checks are tested elsewhere."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.core import ModuleCall, NodeAnswer, PreflightLevel, PreflightVerdict
from penstock.diagnose import Check, NodeReport, Status, check_for_job
from penstock.diagnose.preflight.report import marked

FACTS = {"python": "3.12", "penstock": "0.1"}


def report(*checks: Check, **facts: str) -> NodeReport:
    return NodeReport(node="?", seconds=1.0, clock=time.time(), facts={**FACTS, **facts}, checks=checks)


def check(name: str, status: Status) -> Check:
    return Check(name=name, status=status, figure="seen", expected="wanted")


GOOD = report(check("disk", Status.PASS), check("operator gelu", Status.PASS))
BAD = report(check("disk", Status.PASS), check("operator gelu", Status.FAIL))
NO_TORCH = report(check("disk", Status.PASS), check("devices", Status.SKIP))


@dataclass
class Places:
    """What each place answers in the job's environment, and in the platform's own."""

    said: Mapping[str, NodeReport | str]
    own: Mapping[str, NodeReport | str] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)

    def run(self, call: ModuleCall, *, timeout_s: float, lost: threading.Event) -> NodeAnswer:  # noqa: ARG002
        self.asked.append((call.node, call.own))
        told = (self.own if call.own else self.said)[call.node]
        text = told if isinstance(told, str) else marked(replace(told, clock=time.time()))
        return NodeAnswer(node=call.node, code=1 if isinstance(told, str) else 0, output=f"chatter\n{text}\n")

    def meeting(self, node: str) -> tuple[str, int]:  # noqa: ARG002
        raise AssertionError("nobody has PyTorch here")


def verdict(places: Places) -> PreflightVerdict:
    return check_for_job({place: place for place in places.said}, places, PreflightLevel.QUICK)


def test_nodes_that_do_well_are_asked_once() -> None:
    places = Places({"a": GOOD, "b": GOOD})
    assert verdict(places) == PreflightVerdict(fit=("a", "b"))
    assert sorted(places.asked) == [("a", False), ("b", False)]


def test_what_fails_in_both_environments_is_the_nodes_fault() -> None:
    found = verdict(Places({"a": GOOD, "b": BAD}, {"b": BAD}))
    assert (found.fit, found.fault) == (("a",), "")
    assert found.unfit == {"b": "operator gelu: seen, expected wanted"}


def test_what_fails_in_the_jobs_environment_alone_is_its_own() -> None:
    found = verdict(Places({"a": GOOD, "b": BAD}, {"b": GOOD}))
    assert (found.fit, found.unfit) == ((), {})
    assert found.fault == "on b, in the job's environment but not in Penstock's: operator gelu: seen, expected wanted"


def test_an_invented_check_drains_nobody() -> None:
    made_up = report(check("disk", Status.PASS), check("whatever", Status.FAIL))
    assert verdict(Places({"a": made_up}, {"a": GOOD})).unfit == {}


def test_what_the_platform_cannot_judge_without_pytorch_is_believed() -> None:
    assert verdict(Places({"a": BAD}, {"a": NO_TORCH})).unfit.keys() == {"a"}


def test_a_node_on_which_not_even_the_platform_gets_an_answer_is_unfit() -> None:
    found = verdict(Places({"a": BAD, "b": "Killed"}, {"a": "Killed", "b": "Killed"}))
    assert found.unfit.keys() == {"a", "b"}
    assert "its last line: Killed" in found.unfit["b"]


def test_an_environment_that_cannot_check_is_stood_in_for() -> None:
    found = verdict(Places({"a": "No module named penstock"}, {"a": GOOD}))
    assert (found.fit, found.unfit, found.fault) == (("a",), {}, "")
    assert "No module named penstock" in found.remarks[0]


def test_the_odd_one_of_many_is_unfit_and_of_two_nobody_is() -> None:
    odd = report(check("disk", Status.PASS), torch="2.10")
    found = verdict(Places({"a": GOOD, "b": GOOD, "c": odd}))
    assert found.unfit.keys() == {"c"}
    assert found.unfit["c"].startswith("versions: torch 2.10")
    two = verdict(Places({"a": GOOD, "b": odd}))
    assert (two.unfit, two.fit) == ({}, ())
    assert "versions" in two.fault


def test_a_node_is_as_fit_as_its_worst_place() -> None:
    places = Places({"w0": GOOD, "w1": BAD, "w2": GOOD}, {"w1": BAD})
    found = check_for_job({"w0": "left", "w1": "left", "w2": "right"}, places, PreflightLevel.FULL)
    assert (found.fit, set(found.unfit)) == (("right",), {"left"})
