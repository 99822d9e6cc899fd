"""Callbacks for loops of others: what they tell, and how they leave. The loops themselves are stood in for."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from penstock.runtime.integrations.plain_worker import PlainWorker
from penstock.runtime.training import metric_log


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = signal.getsignal(signal.SIGTERM)
    for name, value in {
        "PENSTOCK_AGENT": "/run/agent.sock", "RANK": "0", "WORLD_SIZE": "1",
        "PENSTOCK_PROGRESS": str(tmp_path / "progress"), "PENSTOCK_CHECKPOINT_DIR": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(metric_log, "_used", metric_log.PrintedMetricLog())
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def trainer_package(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A package that has as much of a trainer as a callback is made from."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def fresh(name: str) -> Any:
    import penstock.elastic as elastic

    return getattr(elastic, name)


def test_progress_goes_to_the_file_and_metrics_to_the_output(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = PlainWorker()
    worker.progress(3, 10)
    assert (job / "progress").read_text() == "step=3 total=10"
    worker.progress(4, 10)
    assert (job / "progress").read_text() == "step=3 total=10", "not more often than is read"
    worker.progress(10, 10)
    assert (job / "progress").read_text() == "step=10 total=10"
    worker.log({"loss": 0.5, "eval acc": 1, "note": "3", "step": 4, "epoch": None}, 10)
    assert capsys.readouterr().out == "penstock: step=10 loss=0.5 eval_acc=1.0\n"


def test_nothing_is_told_outside_of_a_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("PENSTOCK_AGENT", "PENSTOCK_PROGRESS"):
        monkeypatch.delenv(name)
    worker = PlainWorker()
    before = signal.getsignal(signal.SIGTERM)
    worker.listen()
    assert signal.getsignal(signal.SIGTERM) is before
    worker.progress(1, 2)
    worker.log({"loss": 1.0}, 1)
    worker.saved(1, "/x")
    assert capsys.readouterr().out == ""


def test_a_signal_is_obeyed_at_the_end_of_a_step_and_given_back() -> None:
    before, worker = signal.getsignal(signal.SIGTERM), PlainWorker()
    worker.listen()
    assert not worker.must_stop(7)
    os.kill(os.getpid(), signal.SIGTERM)
    assert worker.must_stop(8)
    worker.stop_listening()
    assert signal.getsignal(signal.SIGTERM) is before


def test_workers_of_one_world_stop_after_the_same_step(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    workers = [PlainWorker(), PlainWorker()]
    for worker in workers:
        worker._hear(signal.SIGTERM, None)
    stops = []
    for rank, (worker, begins) in enumerate(zip(workers, (5, 6), strict=True)):
        monkeypatch.setenv("RANK", str(rank))
        stops.append(next(step for step in range(begins, 20) if worker.must_stop(step)))
    assert stops == [7, 7]
    assert [path.name for path in job.glob(".stop-*.*")] == []
    monkeypatch.setenv("PENSTOCK_GENERATION", "1")
    again = PlainWorker()
    again._hear(signal.SIGTERM, None)
    assert [again.must_stop(step) for step in (1, 2, 3)] == [False, False, True], "another world agrees anew"


def test_the_callback_for_hugging_face(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer_package(monkeypatch, "transformers", TrainerCallback=object)
    callback = fresh("HFCallback")()
    args, state = SimpleNamespace(output_dir="/out"), SimpleNamespace(global_step=4, max_steps=9)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    callback.on_train_begin(args, state, control, model=None)
    callback.on_step_end(args, state, control)
    assert (job / "progress").read_text() == "step=4 total=9"
    assert not control.should_save
    callback.on_log(args, state, control, logs={"loss": 0.25, "learning_rate": 1e-3})
    callback.on_save(args, state, control)
    os.kill(os.getpid(), signal.SIGTERM)
    callback.on_step_end(args, state, control)
    assert (control.should_save, control.should_training_stop) == (True, True)
    with pytest.raises(SystemExit) as left:
        callback.on_save(args, state, control)
    assert left.value.code == 0
    checkpointed = "penstock: checkpointed step=4 path=/out/checkpoint-4\n"
    assert capsys.readouterr().out == f"penstock: step=4 loss=0.25 learning_rate=0.001\n{checkpointed}{checkpointed}"


def test_the_callback_for_lightning(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer_package(monkeypatch, "pytorch_lightning", Callback=object)
    callback = fresh("LightningCallback")()
    trainer = SimpleNamespace(
        global_step=2, estimated_stepping_batches=float("inf"), log_every_n_steps=2, sanity_checking=True,
        callback_metrics={"train_loss": 0.5}, save_checkpoint=lambda path: Path(path).write_text("state"),
    )  # fmt: skip
    callback.on_train_start(trainer, None)
    callback.on_validation_end(trainer, None)
    callback.on_train_batch_end(trainer, None, None, None, 0)
    assert (job / "progress").read_text() == "step=2"
    assert callback.checkpoint() is None
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        callback.on_train_batch_end(trainer, None, None, None, 1)
    assert callback.checkpoint() == str(job / "penstock.ckpt")
    out = capsys.readouterr().out
    assert out.count("penstock: step=2 train_loss=0.5\n") == 2
    assert out.endswith(f"penstock: checkpointed step=2 path={job}/penstock.ckpt\n")


def test_other_names_are_none() -> None:
    with pytest.raises(AttributeError, match="HFCallback"):
        fresh("KerasCallback")
