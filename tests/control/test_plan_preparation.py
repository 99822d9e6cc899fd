"""A job that names a model gets a plan for each width: in its curve, in its launch, and nowhere a width without one."""

import json
from pathlib import Path

import pytest

from penstock.control.loop.job_reader import JobReader
from penstock.control.loop.learning_stores import LearningStores
from penstock.control.loop.plan_preparation import possible_counts
from penstock.control.loop.preparation import Predictor
from penstock.core import Cluster, InputError, Node, PlanError, Source, UnknownNameError
from penstock.spec import parse_job

TINY = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 256, "n_positions": 32}
CPUS = Cluster((Node(name="here", device_count=4, kind="cpu", device_memory=4 << 30),))


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    return {
        "model": str(tmp_path / "tiny.json"), "work": 50, "global_batch": 8, "devices": "2..4",
        "environment": {"working_dir": str(tmp_path)},
    }  # fmt: skip


def test_the_curve_of_a_model_has_a_plan_at_each_count(tmp_path: Path, spec: dict[str, object]) -> None:
    stores, told = LearningStores(tmp_path / "data", lambda: CPUS), []
    reader = JobReader(stores)
    draft = reader.read(spec, job_id="j", tenant="t", now=0.0)
    assert draft.needs_preparation
    assert "searched when it is prepared" in draft.note
    assert not (tmp_path / "data" / "plans").exists(), "reading searched something"
    Predictor(stores).predict(parse_job(draft.spec), draft.recipe, told.append)
    assert "plan of" in told[-1]
    prepared = reader.read(spec, job_id="j", tenant="t", now=0.0)
    assert not prepared.needs_preparation
    scaling = prepared.job.curve.scaling("cpu")
    assert scaling is not None
    assert scaling.counts == (2, 4)
    assert [plan.devices for plan in scaling.plans] == [2, 4]
    assert scaling.source is Source.PREDICTED
    assert all(doubt > 0 for doubt in scaling.doubts)
    assert prepared.recipe.command[1:3] == ("-m", "penstock.runtime.parallel.train")
    assert prepared.recipe.command[-10:-8] == ("--layers", "2")
    stores.speeds.observe(prepared.recipe.fingerprint, "cpu", 2, rate=40.0, seconds=60.0)
    stores.learned()
    learned = stores.curve(prepared.recipe.fingerprint, ()).scaling("cpu")
    assert learned is not None
    assert learned.rates[0] == pytest.approx(40.0), "what was measured counts"
    assert learned.plans == scaling.plans, "and the plans stay"


def test_an_unknown_model_is_refused_before_anything_is_searched(tmp_path: Path, spec: dict[str, object]) -> None:
    reader = JobReader(LearningStores(tmp_path / "data", lambda: CPUS))
    with pytest.raises(UnknownNameError, match=r"unknown model 'gpt-1.4b'.*gpt-1\.3b"):
        reader.read({**spec, "model": "gpt-1.4b"}, job_id="j", tenant="t", now=0.0)
    with pytest.raises(PlanError, match="cannot build llama-7b"):
        reader.read({**spec, "model": "llama-7b"}, job_id="j", tenant="t", now=0.0)
    with pytest.raises(InputError, match="at least 8 devices"):
        reader.read({**spec, "devices": "8..16"}, job_id="j", tenant="t", now=0.0)
    assert not (tmp_path / "data" / "plans").exists()


def test_counts_between_the_bounds() -> None:
    assert possible_counts(2, 8, 64) == (2, 4, 8)
    assert possible_counts(3, None, 6) == (3, 4, 6)
    assert possible_counts(1, 16, 4) == (1, 2, 4)
    with pytest.raises(InputError, match="at least 8 devices"):
        possible_counts(8, None, 4)
