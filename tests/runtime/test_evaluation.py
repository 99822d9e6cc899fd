"""The workers of an evaluation: they share the work, lose none of it when they go, and tell what they found."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.core import CHECKPOINT, EVALUATION, EvaluationBrief, EvaluationSet, InputError
from penstock.runtime.evaluation import node_copy
from penstock.runtime.evaluation.evaluation_files import EvaluationFiles, ShardResult, read_times
from penstock.runtime.evaluation.metric_steps import read_metrics
from penstock.runtime.evaluation.node_copy import NodeCopy, is_far
from penstock.runtime.evaluation.packing import Shard
from penstock.runtime.evaluation.results import measured_times
from penstock.runtime.evaluation.scoring import Scoring
from penstock.runtime.evaluation.session import Evaluation, init_evaluation

SCORE = """
import os, pathlib
files = sorted(pathlib.Path(os.environ["PENSTOCK_EVALUATION_OUTPUTS"]).iterdir())
numbers = [int(number) for file in files for number in file.read_text().split()]
assert numbers == list(range(len(numbers))), "in the order of the samples"
print(f"penstock: accuracy={len(numbers)} at={os.environ['PENSTOCK_CHECKPOINT_STEP']}")
"""
SCORE_SHARD = """
import os, pathlib
[file] = pathlib.Path(os.environ["PENSTOCK_EVALUATION_OUTPUTS"]).iterdir()
print(f"penstock: least={min(map(int, file.read_text().split()))}")
"""
WORKER = """
import os, sys
import penstock.evaluation as evaluation

run = evaluation.init()
assert run.checkpoint.read_text() == "weights"
assert "torch" not in sys.modules
for shard in run.shards():
    shard.output.write_text(" ".join(map(str, shard.indices)))
    shard.result(first=shard.start == 0)
    if os.environ.get("DIES") == shard.set:
        os._exit(3)
"""
SETS = (EvaluationSet(name="arc", samples=100), EvaluationSet(name="code", samples=40))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_text("weights")
    (tmp_path / "score.py").write_text(SCORE)
    (tmp_path / "worker.py").write_text(WORKER)
    return tmp_path


def environment(place: Path, *, rank: int = 0, size: int = 1, run: str = "e-1.1", **more: Any) -> dict[str, str]:
    brief = EvaluationBrief(
        step=7, checkpoint=str(place / "weights"), sets=SETS, metric=(sys.executable, str(place / "score.py")), **more
    )
    return {
        EVALUATION: brief.to_text(), "PENSTOCK_CHECKPOINT_DIR": str(place / "evaluation"), "RANK": str(rank),
        "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "TORCHELASTIC_RUN_ID": run,
        "PENSTOCK_AGENT": "unix:/nowhere", CHECKPOINT: str(place / "weights"),
    }  # fmt: skip


def start(place: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, str(place / "worker.py")]
    return subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)


def files(place: Path) -> EvaluationFiles:
    return EvaluationFiles(place / "evaluation", "scoring")


def scored(place: Path, capfd: pytest.CaptureFixture[str], *, is_last: bool = False, **more: Any) -> list[str]:
    """What the worker without a device prints; it goes on when the others have ended if they are."""
    brief = EvaluationBrief.parse(environment(place, **more)[EVALUATION])
    capfd.readouterr()
    Scoring(brief, files(place), lambda: is_last).run()
    return capfd.readouterr().out.splitlines()


@pytest.fixture
def session(place: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluation:
    for name, value in environment(place).items():
        monkeypatch.setenv(name, value)
    return init_evaluation()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is logged here is printed for an agent."""
    monkeypatch.setenv("PENSTOCK_AGENT", "unix:/nowhere")


@pytest.mark.usefixtures("told")
def test_two_workers_share_the_work_and_another_one_without_a_device_tells(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workers = [start(place, environment(place, rank=rank, size=2)) for rank in range(2)]
    lines = scored(place, capfd)
    said, _ = (worker.communicate(timeout=120)[0].splitlines() for worker in workers)
    assert [worker.returncode for worker in workers] == [0, 0]
    assert "penstock: arc/first=0.16 arc/accuracy=100.0 arc/at=7.0" in lines
    assert "penstock: code/first=0.325 code/accuracy=40.0 code/at=7.0" in lines
    assert not any("accuracy" in line for line in said), "results are told once"
    assert [line for line in said if "total=" in line][-1] == "penstock: step=140 total=140"
    times = read_times(str(place / "evaluation"))
    assert {each.name: each.samples for each in times.sets} == {"arc": 100, "code": 40}
    assert all(each.device_s > 0 and each.metric_s > 0 for each in times.sets)


def test_without_a_metric_step_the_first_worker_tells(place: Path) -> None:
    brief = EvaluationBrief(step=7, checkpoint=str(place / "weights"), sets=SETS)
    worker = start(place, {**environment(place), EVALUATION: brief.to_text()})
    said, _ = worker.communicate(timeout=120)
    assert worker.returncode == 0
    assert "penstock: arc/first=0.33" in said.splitlines()


@pytest.mark.usefixtures("told")
def test_metrics_of_shards_are_means_over_their_samples(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (place / "score.py").write_text(SCORE_SHARD)
    worker = start(place, environment(place, metric_by_shard=True))
    worker.communicate(timeout=120)
    assert worker.returncode == 0
    lines = scored(place, capfd, is_last=True, metric_by_shard=True)
    assert "penstock: arc/first=0.33 arc/least=33.33" in lines
    assert "penstock: code/first=0.5 code/least=10.0" in lines
    [arc, code] = read_times(str(place / "evaluation")).sets
    assert min(arc.metric_s, code.metric_s) > 0


def test_the_time_of_a_data_set_is_the_sum_over_its_shards() -> None:
    shards = [Shard(set=name) for name in ("arc", "arc", "code")]
    results = {number: ShardResult(values={}, seconds=seconds) for number, seconds in enumerate((1.0, 2.0, 4.0))}
    metrics = {str(number): ShardResult(values={}, seconds=seconds) for number, seconds in enumerate((0.25, 0.5, 1.0))}
    brief = EvaluationBrief(step=7, checkpoint="weights", sets=SETS, metric=("score",), metric_by_shard=True)
    [arc, code] = measured_times(brief, shards, results, metrics)
    assert (arc.device_s, arc.metric_s, code.device_s, code.metric_s) == (3.0, 0.75, 4.0, 1.0)


@pytest.mark.usefixtures("told")
def test_what_is_done_stays_done_when_a_worker_dies(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = start(place, {**environment(place), "DIES": "code"})
    first.communicate(timeout=120)
    assert first.returncode == 3
    results = place / "evaluation" / "results"
    before = {path.name: path.stat().st_mtime_ns for path in results.iterdir()}
    assert before, "something was done"
    again = start(place, environment(place, run="e-1.2"))
    again.communicate(timeout=120)
    assert again.returncode == 0
    assert any("arc/accuracy=100.0" in line for line in scored(place, capfd, is_last=True))
    assert {path.name: path.stat().st_mtime_ns for path in results.iterdir() if path.name in before} == before


def test_a_shard_without_a_result_is_an_error_that_says_what_is_missing(session: Evaluation) -> None:
    with pytest.raises(InputError, match=r"ended without a result.*raw outputs in shard\.output"):
        for _ in session.shards():
            pass


def evaluated(place: Path, session: Evaluation) -> None:
    """All shards are done."""
    for shard in session.shards():
        shard.output.write_text(" ".join(map(str, shard.indices)))
    assert session._files.done() == set(range(len(files(place).plan() or ())))


@pytest.mark.usefixtures("told")
def test_a_metric_step_that_fails_is_told_and_only_it_is_done_again(
    place: Path, session: Evaluation, capfd: pytest.CaptureFixture[str]
) -> None:
    evaluated(place, session)
    broken = "import os\nif os.environ['PENSTOCK_EVALUATION_SET'] == 'code': raise SystemExit('no answers')\n"
    (place / "score.py").write_text(broken + SCORE)
    with pytest.raises(InputError, match="1 of 2 metric steps failed: code"):
        scored(place, capfd, is_last=True)
    said = capfd.readouterr()
    assert "the metric step of code ended with code 1. Allowed: code 0. It said:\nno answers" in said.err
    assert "penstock:" not in said.out, "all results are told, or none"
    assert files(place).scored() == {"arc"}
    only = "import os\nassert os.environ['PENSTOCK_EVALUATION_SET'] == 'code'\n"
    (place / "score.py").write_text(only + SCORE)
    lines = scored(place, capfd, is_last=True)
    assert [line.partition("/")[0] for line in lines] == ["penstock: arc", "penstock: code"]


@pytest.mark.parametrize("begun", [False, True])
def test_workers_that_end_before_all_shards_are_done_are_an_error(
    place: Path, session: Evaluation, capfd: pytest.CaptureFixture[str], begun: bool
) -> None:
    if begun:
        shards = session.shards()
        next(shards).output.write_text("1")
        next(shards)
    with pytest.raises(InputError, match=r"1 of \d+ shards are done" if begun else "none of its shards are done"):
        scored(place, capfd, is_last=True)


def test_outside_of_an_evaluation_it_says_where_to_begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(EVALUATION, raising=False)
    with pytest.raises(InputError, match="this process evaluates nothing"):
        init_evaluation()
    monkeypatch.setenv("PENSTOCK_CHECKPOINT_DIR", str(tmp_path))
    for text in ("nonsense", "{}", "[]", json.dumps({"step": 1, "checkpoint": "x", "sets": [{"name": "../x"}]})):
        monkeypatch.setenv(EVALUATION, text)
        with pytest.raises(InputError, match="PENSTOCK_EVALUATION cannot be read"):
            init_evaluation()
    monkeypatch.setenv(EVALUATION, EvaluationBrief(step=1, checkpoint="x").to_text())
    with pytest.raises(InputError, match="no data sets"):
        init_evaluation()


def test_a_checkpoint_that_is_gone_is_named(session: Evaluation, place: Path) -> None:
    (place / "weights").unlink()
    with pytest.raises(InputError, match="there is no checkpoint"):
        _ = session.checkpoint


def test_claims_are_for_one_world_and_results_for_all(tmp_path: Path) -> None:
    here, there = EvaluationFiles(tmp_path, "one"), EvaluationFiles(tmp_path, "two")
    assert [here.claim("0"), here.claim("0"), there.claim("0")] == [True, False, True]
    mine = here.agree_on([Shard(set="arc", stop=3)])
    assert there.agree_on([Shard(set="other")]) == mine == [Shard(set="arc", stop=3)]
    here.keep_result(0, ShardResult(values={"accuracy": 1.0}, seconds=2.0))
    assert there.done() == {0}
    assert there.results()[0].values == {"accuracy": 1.0}
    here.keep_result(1, ShardResult(values={"loss": math.inf}, seconds=2.0))
    assert there.results()[1].values == {"loss": math.inf}


def test_times_that_cannot_be_read_are_no_times(tmp_path: Path) -> None:
    unlikely = '{"load_s": 1.0, "sets": [{"name": "arc", "device_s": -1.0}]}'
    for text in ("", "{", "[]", '{"load_s": "much"}', unlikely):
        (tmp_path / "times.json").write_text(text)
        assert read_times(str(tmp_path)).sets == ()
    assert read_times("").sets == read_times(str(tmp_path / "none")).sets == ()


def test_metrics_are_read_from_what_a_step_prints() -> None:
    assert read_metrics("words\npenstock: accuracy=0.5 step=3\npenstock: f1=nan\n").keys() == {"accuracy", "f1"}
    with pytest.raises(InputError, match="accuracy is a str"):
        read_metrics("penstock: accuracy=good")


def test_a_far_checkpoint_is_copied_once_for_all_workers_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_copy, "_SHARED_MEMORY", tmp_path / "memory")
    (tmp_path / "memory").mkdir()
    source = tmp_path / "step-7"
    source.mkdir()
    (source / "weights").write_text("1")
    copies = [NodeCopy(str(source), "run-1", users=2) for _ in range(2)]
    first = copies[0].fetch()
    shutil.rmtree(source)
    assert copies[1].fetch() == first
    assert (first / "weights").read_text() == "1"
    assert first.is_relative_to(tmp_path / "memory")
    copies[0].release()
    assert first.exists()
    copies[1].release()
    assert first.exists(), "one process counts once"
    assert is_far("s3://bucket/step-7")
    assert not is_far(str(tmp_path))
    os.utime(first.parent, (0.0, 0.0))
    monkeypatch.setattr(node_copy, "_roomy", lambda _: tmp_path / "memory")
    with pytest.raises(InputError, match="there is no checkpoint"):
        NodeCopy(str(source), "run-2", users=1).fetch()
    assert not first.exists(), "a copy that was forgotten goes with the next one"
    (tmp_path / "memory" / f"penstock-{os.getuid()}").chmod(0o755)
    with pytest.raises(InputError, match="is not this user's alone"):
        NodeCopy(str(source), "run-3", users=1)
