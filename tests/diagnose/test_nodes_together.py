"""Several nodes: what they say of themselves beside each other, and real collectives between real processes."""

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core import ModuleCall, NodeAnswer
from penstock.diagnose import Check, Located, NodeReport, NodesCheck, Reach, Status
from penstock.diagnose.preflight.nodes import compared, with_pairs
from penstock.diagnose.preflight.reaching import run_all, run_command
from penstock.diagnose.preflight.report import marked

FACTS = {"python": "3.12", "torch": "2.11", "penstock": "0.1"}
GOOD = NodeReport(
    node="a", seconds=1.0, clock=50.0, facts=FACTS, checks=(Check(name="disk", status=Status.PASS, figure="fast"),)
)


def test_a_node_with_another_version_is_not_used() -> None:
    other = replace(GOOD, node="c", facts={**FACTS, "torch": "2.10"})
    same, _, odd = compared([GOOD, replace(GOOD, node="b"), other], began=0.0, ended=60.0)
    assert same.ok
    assert odd.reason.startswith("versions: torch 2.10, expected penstock 0.1, python 3.12, torch 2.11")


@pytest.mark.parametrize(("clock", "ok"), [(-0.5, True), (60.9, True), (70.0, False), (-5.0, False)])
def test_a_clock_must_be_within_the_time_of_the_check(clock: float, ok: bool) -> None:
    (report,) = compared([replace(GOOD, clock=clock)], began=0.0, ended=60.0)
    assert report.ok is ok


def test_what_pairs_showed_becomes_a_check_of_each_node() -> None:
    reports = [replace(GOOD, node=name) for name in "abcd"]
    found = Located(bad=("b",), weak_links=(("c", "d"),), rounds=3)
    a, b, c, d = with_pairs(reports, found)
    assert (a.ok, b.ok, c.ok, d.ok) == (True, False, True, True)
    assert "the link between c and d is weak" in c.checks[-1].figure
    assert not any(each.ok for each in with_pairs(reports, Located(fabric=True)))


def test_commands_end_when_their_time_is_up_and_say_how() -> None:
    slowly = [sys.executable, "-c", "import time; time.sleep(600)"]
    quick, absent = _ran({"a": [sys.executable, "-c", "print('here')"], "c": ["no-such-command"]}, timeout_s=60)
    (slow,) = _ran({"b": slowly}, timeout_s=0.5)
    left_alone, _ = _ran({"b": slowly, "c": ["no-such-command"]}, timeout_s=600, worlds=(0, 0))
    assert (quick.code, quick.last_line) == (0, "here")
    assert (slow.code, left_alone.code) == (None, None)
    assert (absent.code, "No such file" in absent.last_line) == (127, True)


def _ran(commands: dict[str, list[str]], *, timeout_s: float, worlds: tuple[int, ...] = ()) -> list[NodeAnswer]:
    class Commands(Reach):
        def run(self, call: ModuleCall, *, timeout_s: float, lost: threading.Event) -> NodeAnswer:
            return run_command(call.node, commands[call.node], timeout_s=timeout_s, lost=lost)

    calls = [ModuleCall(node=node, module="") for node in commands]
    return run_all(calls, Commands(), timeout_s=timeout_s, worlds=worlds)


@pytest.fixture
def cluster(tmp_path: Path) -> Reach:
    """Three nodes on this machine. Each says that it is fit; in a collective of 127.0.0.2, one member dies."""
    pytest.importorskip("torch")
    script = tmp_path / "reach"
    script.write_text(
        f"#!/bin/sh\nnode=$1; shift\n"
        f'case "$*" in\n'
        f'*preflight.collectives*) [ $node = 127.0.0.2 ] && exit 7; exec "$@";;\n'
        f"*) cat {tmp_path}/report;;\nesac\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return Reach(through=f"{script} {{node}}")


@pytest.mark.long
def test_a_node_that_fails_in_collectives_is_found_among_others(cluster: Reach, tmp_path: Path) -> None:
    (tmp_path / "report").write_text(marked(replace(GOOD, clock=time.time())), encoding="utf-8")
    nodes = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    report = NodesCheck(nodes=nodes, reach=cluster, pair_timeout_s=300.0).run()
    assert report.unfit.keys() == {"127.0.0.2"}
    assert "fails with nodes that do well with others" in report.unfit["127.0.0.2"]
    assert report.to_data()["pairs"]["bad"] == ["127.0.0.2"]


def test_collectives_of_three_processes_are_right() -> None:
    pytest.importorskip("torch")
    check = NodesCheck(nodes=["a", "b", "c"], reach=Reach(), pair_timeout_s=300.0)
    assert check.trial([("a", "b", "c")]) == [True]
    assert NodesCheck(nodes=["a", "b"], reach=Reach(), pair_timeout_s=300.0, least_bytes_s=1e15).trial(
        [("a", "b")]
    ) == [False]
