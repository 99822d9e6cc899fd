"""The metric that a run trains until: told to the server, and the end of the run."""

from pathlib import Path
from typing import Any

import pytest

from penstock.backends import LocalBackend, fake_devices
from penstock.backends.agent.metrics import stop_metric
from penstock.backends.agent.metrics.stop_metric import StopMetric
from penstock.core import MetricBest, ReportKind, StopRule
from tests.backends.watching import make_launch, output, python, wait_for_end

REACH = StopRule(metric="val_acc", rising=True, target=0.9)

_TRAINS = """
import signal, sys, time
def leave(*_):
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
for step in range(1, 6):
    print(f'penstock: step={step} total=5 val_acc={step * %s}', flush=True)
while %s:
    time.sleep(0.01)
"""


class Ear:
    """A :class:`StopMetric` with what it said."""

    def __init__(self, **fields: Any) -> None:
        self.told: list[tuple[int, float]] = []
        self.over = 0
        self.metric = StopMetric(make_launch(("x",), **fields), lambda *said: self.told.append(said), self._end)

    def _end(self) -> None:
        self.over += 1


@pytest.fixture
def no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_metric, "RECORD_EVERY_S", 0.0)


@pytest.mark.usefixtures("no_pace")
def test_only_its_metric_counts_and_a_long_training_tells_little() -> None:
    ear = Ear(until=REACH)
    for step in range(100_000):
        ear.metric.take("val_acc", step, 0.1)
        ear.metric.take("loss", step, 5.0)
    ear.metric.flush()
    assert ear.told[:3] == [(0, 0.1), (1, 0.1), (2, 0.1)]
    assert ear.told[-1] == (99_999, 0.1)
    assert 500 < len(ear.told) < 2500
    assert ear.over == 0


def test_the_value_that_ends_it_is_told_at_once() -> None:
    ear = Ear(until=REACH)
    for step, value in enumerate((0.1, 0.2, float("nan"), 0.95)):
        ear.metric.take("val_acc", step, value)
    assert (ear.told[-1], ear.over) == ((3, 0.95), 1)
    assert ear.metric.ending == "val_acc >= 0.9 reached: 0.95 at step 3"


def test_a_run_without_a_rule_tells_nothing() -> None:
    ear = Ear()
    ear.metric.take("val_acc", 1, 5.0)
    ear.metric.flush()
    assert (ear.told, ear.over, ear.metric.ending) == ([], 0, "")


def test_earlier_runs_count() -> None:
    ear = Ear(until=StopRule(metric="loss", rising=False, patience=5), best=MetricBest(0.1, 3))
    ear.metric.take("loss", 9, 0.2)
    assert ear.over == 1


@pytest.mark.parametrize(
    ("gain", "waits", "said", "reason"),
    [
        (0.45, True, True, "val_acc >= 0.9 reached: 0.9 at step 2"),
        (0.1, False, False, "not reached: best 0.5 at step 5, asked for val_acc >= 0.9"),
    ],
)
def test_a_plain_script_is_ended_when_its_output_says_so(
    state_dir: Path, gain: float, waits: bool, said: bool, reason: str
) -> None:
    """The first would wait for ever."""
    backend = LocalBackend(state_dir, fake_devices(1))
    backend.launch(make_launch(python(_TRAINS % (gain, waits)), until=REACH))
    end = wait_for_end(backend, "run-1")
    assert end.kind is ReportKind.FINISHED
    assert (end.reason or "").startswith(reason)
    assert ("saved" in output(backend, "run-1")) == said
    told = [report.value for report in backend.reports("run-1", 0) if report.kind is ReportKind.METRIC]
    assert told[0] == pytest.approx(gain)
