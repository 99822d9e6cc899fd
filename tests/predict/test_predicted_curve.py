"""Jobs nobody has measured: what their script's model foretells, how measurements bend it, what failing looks like."""

import json
from pathlib import Path

import pytest

from penstock.core import InputError, Scaling, Source
from penstock.learn import CurveStore
from penstock.predict.device_profile import SHIPPED, DeviceProfile
from penstock.predict.model_sources import load_hook, setup_of
from penstock.predict.predicted_curve import profile_for
from penstock.predict.prediction_cache import PredictionCache, PredictionReply, PredictionRequest, counts_up_to

PATIENCE_S = 600.0
"""A child that imports PyTorch takes long on a busy machine; no test here is about the limit."""

SCRIPT = """
import torch
print("imported", flush=True)
{before}

def penstock_model(batch):
    {inside}
    layers = torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)
    return torch.nn.Sequential(*layers), torch.randn(batch, 256)

if __name__ == "__main__":
    raise SystemExit("it was run")
"""


def _script(folder: Path, *, before: str = "", inside: str = "pass") -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(before=before, inside=inside))
    return path


def _request(script: Path, **changes: object) -> PredictionRequest:
    asked = {
        "fingerprint": "abc", "script": str(script), "batch": 64, "kind": "H200", "counts": (1, 2, 4),
        "profiles": str(script.parent / "profiles"),
    }  # fmt: skip
    return PredictionRequest(**(asked | changes))  # type: ignore[arg-type]


def test_a_script_is_asked_once_and_its_answer_survives_a_restart(tmp_path: Path) -> None:
    count = tmp_path / "imports"
    script = _script(tmp_path, before=f"open({str(count)!r}, 'a').write('x')")
    cache = PredictionCache(tmp_path / "predictions", limit_s=PATIENCE_S)
    answer = cache.ask(_request(script))
    assert answer.reason == ""
    assert answer.scaling is not None
    assert (answer.scaling.counts, answer.scaling.source) == ((1, 2, 4), Source.PREDICTED)
    assert all(0 < doubt <= 0.5 for doubt in answer.scaling.doubts)
    again = PredictionCache(tmp_path / "predictions", limit_s=PATIENCE_S)
    assert again.ask(_request(script)) == answer
    assert again.known("abc", "H200") == answer.scaling
    assert count.read_text() == "x"
    assert again.ask(_request(script, batch=32)).scaling is not None
    assert count.read_text() == "xx"


def test_a_script_without_the_hook_costs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text("raise SystemExit('imported')")
    assert PredictionCache(tmp_path).ask(_request(script)) == PredictionReply()
    assert PredictionCache(tmp_path).known("abc", "H200") is None


@pytest.mark.parametrize(
    ("before", "inside", "said"),
    [
        ("import no_such_module", "pass", "No module named 'no_such_module'"),
        ("raise SystemExit(7)", "pass", "status 7"),
        ("", "raise ValueError('no weights here')", "no weights here"),
        ("", "return torch.nn.Linear(2, 2)", "penstock_model returned Linear"),
        ("penstock_setup = {'precison': 'bf16'}", "pass", "some of precision, layout, optimizer"),
    ],
)
def test_what_is_wrong_with_a_script_is_said_and_not_raised(
    tmp_path: Path, before: str, inside: str, said: str
) -> None:
    answer = PredictionCache(tmp_path / "predictions", limit_s=PATIENCE_S).ask(
        _request(_script(tmp_path, before=before, inside=inside))
    )
    assert answer.scaling is None
    assert said in answer.reason


def test_the_script_says_how_it_trains(tmp_path: Path) -> None:
    plain = load_hook(str(_script(tmp_path)))
    assert setup_of(plain) == {}
    told = load_hook(str(_script(tmp_path, before="penstock_setup = {'precision': 'bf16', 'optimizer': 'sgd'}")))
    assert setup_of(told) == {"precision": "bf16", "optimizer": "sgd"}


def test_a_kind_finds_its_profile(tmp_path: Path) -> None:
    assert profile_for("H200") == "h200"
    assert profile_for("NVIDIA H200") == "h200"
    with pytest.raises(InputError, match="nothing says which device 'nvidia"):
        profile_for("nvidia.com/gpu", [tmp_path])
    DeviceProfile.load(SHIPPED / "h200").save(tmp_path / "our-gpu")
    assert profile_for("nvidia.com/gpu", [tmp_path]) == "our-gpu"


def test_a_data_sheet_is_too_little_to_promise_on(tmp_path: Path) -> None:
    answer = PredictionCache(tmp_path, limit_s=PATIENCE_S).ask(_request(_script(tmp_path), kind="T4"))
    assert answer.scaling is None
    assert "t4 was never measured" in answer.reason


def test_a_prediction_stands_until_measured_and_is_bent_through_what_was(tmp_path: Path) -> None:
    store = CurveStore(tmp_path / "curves.db")
    prior = Scaling(counts=(1, 2, 4), rates=(10.0, 15.0, 18.0), source=Source.PREDICTED, doubts=(0.2, 0.2, 0.2))
    before = store.curve("job", "gpu", 2, prior=prior)
    assert (before.rate(2, "gpu"), before.rate(1, "gpu"), before.doubt(1, "gpu")) == (15.0, 10.0, 0.2)
    assert before.scalings[0][1].counts == (1, 2)
    store.observe("job", "gpu", 2, rate=7.5, seconds=60)
    after = store.curve("job", "gpu", 4, prior=prior)
    assert [after.rate(count, "gpu") for count in (1, 2, 4)] == pytest.approx([5.0, 7.5, 9.0])
    assert after.scalings[0][1].source is Source.PREDICTED
    store.observe("job", "gpu", 1, rate=6.0, seconds=60)
    store.observe("job", "gpu", 4, rate=8.0, seconds=60)
    assert store.curve("job", "gpu", 4, prior=prior).scalings[0][1].source is Source.MEASURED


def test_counts_are_powers_of_two_and_the_largest() -> None:
    assert [counts_up_to(most) for most in (1, 4, 6)] == [(1,), (1, 2, 4), (1, 2, 4, 6)]


def test_a_kept_answer_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    script = _script(tmp_path)
    cache = PredictionCache(tmp_path / "predictions", limit_s=PATIENCE_S)
    first = cache.ask(_request(script, counts=(1,)))
    (file,) = (tmp_path / "predictions").rglob("*.json")
    assert json.loads(file.read_text())["answer"]["counts"] == [1]
    file.write_text("{")
    assert cache.ask(_request(script, counts=(1,))) == first
