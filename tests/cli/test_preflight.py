"""``penstock preflight``: this node, or several, and what becomes of those that fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.diagnose import Check, NodeCheck, NodeReport, Status, shared_report
from tests.cli.conftest import Penstock
from tests.control.build import Platform
from tests.tools import needs

GOOD = Check(name="disk", status=Status.PASS, figure="1GB/s")
BAD = Check(name="operator gelu", status=Status.FAIL, figure="off by 9", expected="references", next="Replace it")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """A node whose checks the test chooses: what they find is tested elsewhere."""
    checks = [GOOD]
    monkeypatch.setattr(
        NodeCheck, "run", lambda *_: NodeReport(node="node-0", seconds=1.0, clock=0.0, checks=tuple(checks))
    )
    return checks


def test_a_node_that_is_fit(penstock: Penstock, node: list[Check]) -> None:
    done = penstock("preflight")
    assert (done.code, done.out.splitlines()[-1]) == (0, "node-0: fit for work (1 s)")
    assert penstock("preflight", "--json").json()["ok"] is True


def test_a_node_that_is_not_says_why_and_what_to_do(penstock: Penstock, node: list[Check]) -> None:
    node.append(BAD)
    done = penstock("preflight")
    assert done.code == 1
    assert "operator gelu" in done.out
    assert done.out.splitlines()[-1] == "node-0: not to be used (1 s)"
    assert "operator gelu: Replace it" in done.err
    told = json.loads(penstock("preflight", "--json").out)
    assert [check["status"] for check in told["checks"]] == ["pass", "fail"]


def test_a_node_that_fails_is_drained_with_the_reason(world: Platform, penstock: Penstock, node: list[Check]) -> None:
    node.append(BAD)
    assert penstock("preflight", "--drain").code == 1
    (view,) = penstock("nodes", "--json").json()
    assert view["state"] == "drained"
    assert view["unusable"] == ["drained: preflight: operator gelu: off by 9, expected references. Replace it"]
    assert "operator gelu" in penstock("nodes").out


def test_a_fit_node_is_left_alone(world: Platform, penstock: Penstock, node: list[Check]) -> None:
    assert penstock("preflight", "--drain").code == 0
    assert penstock("nodes", "--json").json()[0]["state"] == "up"


def test_nodes_that_cannot_be_reached_are_not_to_be_used(world: Platform, penstock: Penstock) -> None:
    done = penstock("preflight", "--nodes", "node-0", "--through", "no-such-command {node}", "--drain")
    assert done.code == 1
    assert "no-such-command" in penstock("nodes", "--json").json()[0]["unusable"][0]


def test_a_node_that_the_platform_does_not_know_cannot_be_drained(world: Platform, penstock: Penstock) -> None:
    done = penstock("preflight", "--nodes", "elsewhere", "--through", "no-such-command {node}", "--drain")
    assert done.code == 2
    assert "the platform has no node 'elsewhere'" in done.err


def test_a_command_runs_on_a_fit_node_only(penstock: Penstock, node: list[Check], tmp_path: Path) -> None:
    needs.names()
    code = "import sys; from penstock.cli import main; sys.argv[0] = 'penstock'; main()"
    words = ["preflight", "--quick", "--folder", str(tmp_path), "--disk-rate"]

    def run(rate: str, *command: str) -> tuple[int, str]:
        hidden = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if n == 'torch' else f(n)"
        done = subprocess.run(
            [sys.executable, "-c", f"{hidden}\n{code}", *words, rate, "--", *command], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    fit, told = run(
        "0.001", sys.executable, "-c", "import sys; print('training', *sys.argv[1:]); sys.exit(5)", "--lr", "1"
    )
    assert (fit, told.splitlines()[-1]) == (5, "training --lr 1")
    unfit, told = run("1e12", sys.executable, "-c", "print('training')")
    assert (unfit, "training" in told) == (1, False)
    assert run("0.001", "no-such-command")[0] == 2


def test_workers_of_one_attempt_share_a_check(node: list[Check], tmp_path: Path) -> None:
    env = {"PENSTOCK_JOB_ID": "j-1", "PENSTOCK_ATTEMPT": "1"}

    def asked(**more: str) -> bool:
        return shared_report(NodeCheck(), print, {**env, **more}, tmp_path).ok

    assert asked()
    node.append(BAD)
    assert asked()
    assert not asked(PENSTOCK_ATTEMPT="2")
    assert not shared_report(NodeCheck(), print, {}, tmp_path).ok


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "--", "true"), "a command to run after"),
        (("--device", "tpu"), "'tpu' is not a device to check"),
        (("--folder", "absent"), "no folder absent"),
        (("--disk-rate", "-1"), "a disk rate of"),
        (("--nodes", "a,a"), "names, each once"),
        (("--nodes", "a,,b"), "names, each once"),
        (("--nodes", "a", "--through", "ssh"), "without {node}"),
        (("--nodes", "a", "--through", "ssh '{node}"), "a command line"),
        (("--pair-rate", "-3", "--nodes", "a"), "--pair-rate"),
    ],
)
def test_bad_input_is_one_message(words: tuple[str, ...], said: str, penstock: Penstock) -> None:
    done = penstock("preflight", *words)
    assert done.code == 2
    assert said in done.err
    assert (done.out, "Traceback" in done.err) == ("", False)


@needs.with_torch
def test_the_module_needs_no_command_line_packages(tmp_path: Path) -> None:
    """A machine with nothing but Python, NumPy and PyTorch can be checked."""
    code = (
        "import sys\n"
        "for name in ('typer', 'pydantic', 'rich', 'yaml', 'numba', 'fastapi'): sys.modules[name] = None\n"
        "from penstock.diagnose.preflight.node import NodeCheck\n"
        "import penstock.diagnose.preflight.numerics, penstock.diagnose.operators.suite.running\n"
        "from penstock.diagnose.preflight.expectations import expectations\n"
        "print(expectations('NVIDIA H200').flops['bf16'].source, NodeCheck().words)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("data sheet of h200 ['--device', 'auto'")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "--platform without --nodes"),
        (("--nodes", "node-0", "--through", "ssh {node}"), "--platform with --through"),
        (("--nodes", "node-0", "--drain", "--compile"), "--platform with --compile, --drain"),
        (("--nodes", "nowhere"), "unknown node 'nowhere'"),
        (("--nodes", "node-0,node-0"), "each once"),
        (("--nodes", "node-0", "--wait", "a while"), "'a while'"),
    ],
)
def test_what_jobs_of_the_platform_cannot_do_is_refused(
    world: Platform, penstock: Penstock, words: tuple[str, ...], complaint: str
) -> None:
    done = penstock("preflight", "--platform", *words)
    assert done.code == 2
    assert complaint in done.err


def test_a_node_in_use_is_not_checked_and_that_is_said(world: Platform, penstock: Penstock) -> None:
    world.submit(work=1000)
    world.passes(2)
    done = penstock("preflight", "--platform", "--nodes", "node-0")
    assert done.code == 1
    assert "not checked" in done.out
    assert "busy: its devices are in use by" in " ".join(done.out.split())
    assert json.loads(penstock("preflight", "--platform", "--nodes", "node-0", "--json").out)[0]["fit"] is None
