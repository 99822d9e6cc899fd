"""A real server and a paused job whose checkpoints are damaged or gone: no job begins again without saying so."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core import ParallelPlan, ParallelStage, gpt_operators
from penstock.wire import ConflictError
from tests.live.site import Site, until

pytest.importorskip("torch")

_SCRIPT = """
import pathlib, time
import torch
import penstock.elastic as elastic

torch.set_num_threads(1)
run = elastic.init(checkpoint_steps=20)
model = run.wrap(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run.attach(optimizer=optimizer)
numbers = [torch.tensor([index / 64, 1.0]) for index in range(64)]
first = None
for step in run.steps(numbers, global_batch=2, steps=300):
    if first is None:
        first = step.number
        with open("begun", "a") as file:
            file.write(f"{first}\\n")
    with step as x:
        step.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    if not pathlib.Path("hurry").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=1)
    yield found
    found.close()


class Night:
    """A job that was paused after it had saved at least twice; ``begun`` lists where each of its runs began."""

    def __init__(self, site: Site, *words: str, steps: int = 300) -> None:
        self._site = site
        (site.folder / "train.py").write_text(_SCRIPT, encoding="utf-8")
        where = {"working_dir": str(site.folder)}
        spec = {"name": "night", "work": f"{steps} steps", "devices": 1, "environment": where}
        spec["command"] = [sys.executable, *(words or ("train.py",))]
        self.id = site.ask(lambda client: client.submit(spec)).job.id
        self.place = site.data / "checkpoints" / self.id
        until(lambda: len(self.manifests()) == 2, "two checkpoints")
        site.ask(lambda client: client.pause(self.id))
        until(lambda: not site.workers() and self.state() == "paused", "the pause")
        self.steps = [int(path.stem.removeprefix("step-")) for path in self.manifests()]

    def manifests(self) -> list[Path]:
        return sorted(self.place.glob("step-*.json"))

    def state(self) -> str:
        return self._site.ask(lambda client: client.job(self.id)).state

    def begun(self) -> list[int]:
        path = self._site.folder / "begun"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def why(self) -> str:
        return "\n".join(note.text for note in self._site.ask(lambda client: client.why(self.id)).entries)

    def damage(self, step: int) -> None:
        path = self.place / f"step-{step:010d}" / "shard-00000.bin"
        path.write_bytes(bytes(len(path.read_bytes())))

    def resume(self, **how: bool) -> None:
        self._site.ask(lambda client: client.resume(self.id, **how))

    def hurry(self) -> None:
        """Let it finish."""
        (self._site.folder / "hurry").touch()
        until(lambda: self.state() == "finished", "its end")


def test_a_damaged_newest_checkpoint_costs_the_steps_since_the_one_before_and_that_is_said(site: Site) -> None:
    night = Night(site)
    before, newest = night.steps
    night.damage(newest)
    night.resume()
    until(lambda: len(night.begun()) == 2, "the next run")
    assert night.begun() == [0, before]
    said = f"its checkpoint of step {newest} cannot be read: shard-00000.bin differs from what was written"
    until(lambda: f"{said}; it goes on from step {before}" in night.why(), "the reason in why")
    detail = site.ask(lambda client: client.job(night.id))
    assert any(said in notice for notice in detail.notices), detail.notices
    listed = site.ask(lambda client: client.checkpoints(night.id)).checkpoints
    aside = [each for each in listed if each.path == f"unreadable-step-{newest:010d}"]
    assert [each.state for each in aside] == ["damaged"], listed
    night.hurry()


@pytest.mark.parametrize("damage", ["damaged", "gone"])
def test_a_job_without_a_readable_checkpoint_waits_and_begins_again_only_if_told_to(site: Site, damage: str) -> None:
    night = Night(site)
    if damage == "damaged":
        for step in night.steps:
            night.damage(step)
    else:
        shutil.rmtree(night.place)
    night.resume()
    until(lambda: "--from-scratch" in site.ask(lambda client: client.job(night.id)).reason, "the reason")
    until(lambda: night.state() == "paused" and not site.workers(), "the pause")
    said = "can be read (step" if damage == "damaged" else f"step {night.steps[-1]} was saved in {night.place}, and no"
    assert said in night.why()
    assert f"penstock resume {night.id} --from-scratch" in night.why()
    assert night.begun() == [0], "it has not begun again by itself"
    night.resume(from_scratch=True)
    until(lambda: len(night.begun()) == 2, "the next run")
    assert night.begun()[1] == 0
    assert "it begins again at step 0" in night.why()
    with pytest.raises(ConflictError, match="not paused"):
        night.resume(from_scratch=True)
    site.ask(lambda client: client.pause(night.id))
    until(lambda: not site.workers() and night.state() == "paused", "the pause")
    night.resume()
    until(lambda: len(night.begun()) == 3, "the run after it")
    assert night.begun()[2] > 0, "what the new beginning has saved counts"
    assert (night.place / "from-scratch-1").is_dir()
    if damage == "damaged":
        assert len(night.manifests()) == 2, "what was saved before stays where it is"
    night.hurry()


def test_the_trainer_of_planned_models_says_it_too(site: Site) -> None:
    stage = ParallelStage.uniform(len(gpt_operators(2)))
    plan = ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=(stage,))
    (site.folder / "plan.json").write_text(json.dumps(plan.to_mapping()))
    sizes = ("--steps", "1000000", "--heads", "4", "--sequence", "16", "--checkpoint-every", "0.5")
    night = Night(site, "-m", "penstock.runtime.parallel.train", "plan.json", *sizes, steps=1_000_000)
    before, newest = night.steps
    night.damage(newest)
    night.resume()
    said = f"its checkpoint of step {newest} cannot be read: shard-00000.bin differs from what was written"
    until(lambda: f"{said}; it goes on from step {before}" in night.why(), "the reason in why")
    site.ask(lambda client: client.pause(night.id))
    until(lambda: not site.workers() and night.state() == "paused", "the pause")
    for path in night.manifests():
        path.write_text("{}")
    night.resume()
    until(lambda: "--from-scratch" in site.ask(lambda client: client.job(night.id)).reason, "the reason")
    until(lambda: night.state() == "paused" and not site.workers(), "the pause")
    night.resume(from_scratch=True)
    until(lambda: list((night.place / "from-scratch-1").glob("step-*.json")) != [], "a new beginning")
