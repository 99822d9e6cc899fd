"""``elastic.log`` outside of an elastic loop: a line for the agent, or nothing."""

import pytest

from penstock.core import InputError
from penstock.runtime.training.metric_log import PrintedMetricLog


def test_a_worker_without_a_loop_prints_what_it_logs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_AGENT", "/run/agent.sock")
    monkeypatch.setenv("RANK", "0")
    PrintedMetricLog().log({"eval/loss": 0.5}, step=7, val_acc=1)
    PrintedMetricLog().log(loss=float("nan"))
    assert capsys.readouterr().out == "penstock: step=7 eval/loss=0.5 val_acc=1.0\npenstock: loss=nan\n"


def test_other_workers_and_scripts_without_a_platform_print_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PENSTOCK_AGENT", raising=False)
    PrintedMetricLog().log(loss=1.0)
    monkeypatch.setenv("PENSTOCK_AGENT", "/run/agent.sock")
    monkeypatch.setenv("RANK", "1")
    PrintedMetricLog().log(loss=1.0)
    assert capsys.readouterr().out == ""


def test_what_cannot_be_logged_is_refused_on_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_AGENT", raising=False)
    with pytest.raises(InputError, match="a number, or a tensor"):
        PrintedMetricLog().log(loss="low")
    with pytest.raises(InputError, match="'my metric'"):
        PrintedMetricLog().log({"my metric": 1.0})
