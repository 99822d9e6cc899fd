"""What a node's check has come to, as far as job and node tell."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.node_checks import CheckedNode, _outcome
from penstock.wire import NodeView

ASKED = datetime(2026, 1, 1, tzinfo=UTC)


def outcome(
    state: str = "running",
    passed_s: float | None = None,
    jobs: tuple[str, ...] = ("j",),
    in_time: bool = True,
    **more: Any,
) -> CheckedNode | None:
    """Of the job ``j``, that checks the only node; it passed so many seconds after it was asked."""
    job: dict[str, Any] = {"state": state, "submitted_at": ASKED, "reason": "", "devices": [0], "history": []}
    at = None if passed_s is None else ASKED + timedelta(seconds=passed_s)
    node = NodeView(name="n", kind="gpu", devices=[0], state="up", jobs=list(jobs), checked_at=at)
    client: Any = SimpleNamespace(job=lambda _: SimpleNamespace(**job | more), nodes=lambda: [node])
    return _outcome(client, "n", "j", may_wait=False, in_time=in_time)


def known(**given: Any) -> CheckedNode:
    return CheckedNode(node="n", job="j", **given)


@pytest.mark.parametrize("passed_s", [0.0, 1.0])
def test_a_check_that_passed_since_it_was_asked_for_makes_a_node_fit(passed_s: float) -> None:
    assert outcome(passed_s=passed_s) == outcome("finished", passed_s) == known(fit=True)


def test_an_earlier_check_tells_nothing() -> None:
    assert outcome(passed_s=-1.0) is outcome() is None
    assert outcome(in_time=False) == known(fit=None, reason="its check has not ended in time")


def test_only_a_failed_check_makes_a_node_unfit() -> None:
    assert outcome("failed", reason="gemm is slow") == known(fit=False, reason="gemm is slow")
    assert outcome("cancelled") == known(fit=None, reason="cancelled")


def test_a_check_that_found_no_devices_names_who_holds_them() -> None:
    waits = outcome("asking", jobs=("other", "j"), devices=[])
    assert waits is not None
    assert (waits.fit, "in use by other;" in waits.reason) == (None, True)
    assert outcome("asking", jobs=("j",), devices=[]) is None, "nobody else holds them"
    assert outcome("asking", jobs=("other", "j")) is None, "it has devices"
