"""A real server, a real little model: its checkpoints are evaluated while it trains, devices are given back while
metrics are computed, and nobody who is killed changes anything about what comes out."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.site import OVER, Site, until

_MODEL = """
import torch


def model():
    return torch.nn.Linear(1, 1, bias=False)
"""
_TRAIN = """
import os, pathlib, time
import torch
from little import model

place, asked = pathlib.Path(os.environ["PENSTOCK_CHECKPOINT_DIR"]), pathlib.Path("asked")
linear = model()
for step in (10, 20, 30):
    while not (asked / str(step)).exists():
        time.sleep(0.05)
    with torch.no_grad():
        linear.weight.fill_({10: 1.0, 20: 2.0, 30: 0.5}[step])
    target = place / f"{step}.pt"
    torch.save(linear.state_dict(), target)
    print(f"penstock: checkpointed step={step} path={target}", flush=True)
    print(f"penstock: step={step} total=30", flush=True)
"""
_EVALUATE = """
import json, pathlib, time
import torch
import penstock.evaluation as evaluation
from little import model

run, linear = evaluation.init(), model()
run.load(linear)
for shard in run.shards():
    with open("taken", "a") as file:
        file.write(f"{run.step} {shard.set} {shard.start}\\n")
    numbers = torch.tensor([[float(index)] for index in shard.indices])
    shard.output.write_text(json.dumps(linear(numbers)[:, 0].tolist()))
    while run.step == 20 and not pathlib.Path("go").exists():
        time.sleep(0.05)
"""
_SCORE = """
import json, os, pathlib, time

assert not os.environ["CUDA_VISIBLE_DEVICES"]
name = f"{os.environ['PENSTOCK_CHECKPOINT_STEP']} {os.environ['PENSTOCK_EVALUATION_SET']}"
with open("scoring", "a") as file:
    file.write(f"{name} {os.getpid()}\\n")
while pathlib.Path("hold").exists():
    time.sleep(0.05)
files = sorted(pathlib.Path(os.environ["PENSTOCK_EVALUATION_OUTPUTS"]).iterdir())
numbers = [number for file in files for number in json.loads(file.read_text())]
right = [round(number) == 2 * index for index, number in enumerate(numbers)]
print(f"penstock: accuracy={sum(right) / len(right)} n={len(right)}")
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    for name, text in (("little", _MODEL), ("train", _TRAIN), ("evaluate", _EVALUATE), ("score", _SCORE)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "asked").mkdir()
    found = Site(tmp_path, slots=2)
    yield found
    found.close()


def evaluations(site: Site, job: str) -> list[Any]:
    return site.ask(lambda client: client.evaluations(job)).evaluations


def states(site: Site, job: str) -> dict[int, str]:
    return {each.step: each.state for each in evaluations(site, job)}


def train(site: Site) -> str:
    """A job that saves when it is asked to; on two slots it leaves one to evaluations and to others."""
    spec = {
        "name": "night", "command": [sys.executable, "train.py"], "work": 30, "devices": 1,
        "environment": {"working_dir": str(site.folder)},
        "evaluate": {
            "command": [sys.executable, "evaluate.py"], "every": "10 steps", "sets": {"twice": 40, "again": 10},
            "metric": [sys.executable, "score.py"], "priority": 50,
        },
    }  # fmt: skip
    return site.ask(lambda client: client.submit(spec)).job.id


def scoring(site: Site) -> list[list[str]]:
    """Metric steps that were begun: step, data set, pid."""
    place = site.folder / "scoring"
    return [line.split() for line in place.read_text().splitlines()] if place.exists() else []


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def held_while_scoring(site: Site) -> tuple[str, str]:
    """A job and its evaluation, whose metric steps have begun and do not end; its device is somebody else's by now."""
    (site.folder / "hold").touch()
    job = train(site)
    (site.folder / "asked" / "10").touch()
    until(lambda: states(site, job).get(10) == "finishing", "the device to be given back")
    evaluation = evaluations(site, job)[0].job_id
    spec = {"command": ["sleep", "600"], "work": 1, "devices": 1, "environment": {"working_dir": str(site.folder)}}
    other = site.ask(lambda client: client.submit(spec)).job.id
    until(lambda: any(one.run_id == f"{other}.1" for one in site.workers()), "another job on its device")
    until(lambda: len(scoring(site)) == 2, "both metric steps to have begun")
    assert all(lives(int(pid)) for *_, pid in scoring(site)), "metrics are computed meanwhile"
    assert {one.worker for one in site.workers() if one.run_id == f"{evaluation}.1"} == {"cpu"}
    assert states(site, job) == {10: "finishing"}
    return job, evaluation


def test_checkpoints_are_evaluated_beside_training_also_when_the_server_is_killed(site: Site) -> None:
    job = train(site)
    (site.folder / "asked" / "10").touch()
    until(lambda: states(site, job).get(10) == "finished", "the first evaluation")
    (site.folder / "asked" / "20").touch()
    until(lambda: "20 " in (site.folder / "taken").read_text(), "the second evaluation to be under way")
    site.kill_server()
    (site.folder / "go").touch()
    site.start()
    until(lambda: states(site, job).get(20) == "finished", "the second evaluation")
    (site.folder / "asked" / "30").touch()
    until(lambda: states(site, job).get(30) == "finished", "the last evaluation")
    assert site.ask(lambda client: client.job(job)).state in OVER
    assert states(site, job) == dict.fromkeys((10, 20, 30), "finished")

    taken = (site.folder / "taken").read_text().splitlines()
    assert len(taken) == len(set(taken)), "no shard was evaluated twice"
    found = site.ask(lambda client: client.metrics(job))
    assert found["eval/twice/accuracy"].steps == [10, 20, 30]
    assert found["eval/twice/accuracy"].values == [1 / 40, 1.0, 1 / 40], "zero is twice zero for any weight"
    assert found["eval/again/n"].values == [10.0, 10.0, 10.0]
    last = evaluations(site, job)[-1]
    assert last.worse == ["again/accuracy 0.1, was 1 at step 20", "twice/accuracy 0.025, was 1 at step 20"]
    told = [note.text for note in site.ask(lambda client: client.why(job)).entries]
    assert f"the checkpoint of step 30 got worse: {'; '.join(last.worse)}" in told
    until(lambda: not list(site.data.glob("**/e-*/checkpoint")), "the links to checkpoints to go")


def test_a_device_is_given_back_while_metrics_go_on_through_the_death_of_the_server(site: Site) -> None:
    job, evaluation = held_while_scoring(site)
    told = [note.text for note in site.ask(lambda client: client.why(evaluation)).entries]
    assert "gave its device back: what is left of it needs none" in told
    site.kill_server()
    site.start()
    assert states(site, job) == {10: "finishing"}
    (site.folder / "hold").unlink()
    until(lambda: states(site, job).get(10) == "finished", "the results")
    assert len(scoring(site)) == 2, "no metric step was begun again"
    found = site.ask(lambda client: client.metrics(job))
    assert found["eval/again/n"].values == [10.0]
    assert [event.kind for event in site.events() if event.job_id == evaluation].count("Evaluated") == 1
    [stint] = site.ask(lambda client: client.job(evaluation)).history
    assert stint.until is not None
    assert stint.until < evaluations(site, job)[0].ended_at


@pytest.mark.parametrize("who", ["the worker without a device", "its agent"])
def test_who_computes_metrics_may_die_and_no_shard_is_evaluated_again(site: Site, who: str) -> None:
    job, evaluation = held_while_scoring(site)
    taken = (site.folder / "taken").read_text()
    if who == "its agent":
        [pid] = [pid for run_id, pid in site.agents() if run_id == f"{evaluation}.1"]
    else:
        [pid] = [one.pid for one in site.workers() if one.run_id == f"{evaluation}.1"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not any(lives(int(pid)) for *_, pid in scoring(site)[:2]), "its metric steps to end with it")
    until(lambda: len(scoring(site)) == 4, "both metric steps to begin again")
    assert {one.worker for one in site.workers() if one.run_id == f"{evaluation}.2"} == {"cpu"}
    (site.folder / "hold").unlink()
    until(lambda: states(site, job).get(10) == "finished", "the results")
    assert (site.folder / "taken").read_text() == taken
    assert site.ask(lambda client: client.metrics(job))["eval/twice/accuracy"].values == [1 / 40]


def test_cancelled_while_metrics_are_computed_it_leaves_no_process(site: Site) -> None:
    job, evaluation = held_while_scoring(site)
    site.ask(lambda client: client.cancel(evaluation))
    until(lambda: not any(lives(int(pid)) for *_, pid in scoring(site)), "its metric steps to end")
    until(lambda: not any(one.run_id.startswith(evaluation) for one in site.workers()), "its worker to end")
    assert states(site, job) == {10: "cancelled"}
