"""A first promise from the model a script offers: a real server, asked over HTTP, beside real workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client, ensure_server
from penstock.predict.device_profile import DeviceProfile
from penstock.predict.hardware import device_named
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.profile_fitting import fit_profile
from penstock.predict.lab.measuring.affordable_networks import affordable_network
from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.predict.lab.records.measurements import read_measurements
from tests.control.serving import end_everything_on, until

SCRIPT = """
import pathlib, time, torch

def penstock_model(batch):
    {inside}
    layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4)
    return torch.nn.Sequential(*layers), torch.randn(batch, 64)

if __name__ == "__main__":
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    for step in range(1, 401):
        print(f"penstock: step={{step}} total=400", flush=True)
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> DeviceProfile:
    """This machine, measured for a moment: good for saying "predicted", not for judging by how much."""
    folder = tmp_path_factory.mktemp("measured")
    session = MeasuringSession(folder, "cpu")
    for number in (2, 15, 22):
        item, seen = affordable_network(number, "cpu")
        session.measure(item, 0.05, seen=seen)
    session.save()
    return fit_profile("cpu", device_named("cpu"), read_measurements(folder), options=BoostingOptions(trees=3, bins=16))


@pytest.fixture
def client(tmp_path: Path, profile: DeviceProfile) -> Iterator[Client]:
    """A server on a data directory with a profile of this machine; it and its workers are gone afterwards."""
    data_dir = tmp_path / "data"
    profile.save(data_dir / "profiles" / "cpu")
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        yield client
    end_everything_on(data_dir)


def _spec(folder: Path, *, inside: str = "pass", **changes: object) -> dict[str, object]:
    (folder / "train.py").write_text(SCRIPT.format(inside=inside))
    spec = {"script": "train.py", "work": "400 steps", "global_batch": 32, "deadline": "1h", "resumable": True}
    return {**spec, "environment": {"working_dir": str(folder)}, **changes}


def test_a_first_promise_is_predicted_and_runs_correct_it(client: Client, tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    first = client.quote(spec)
    assert first.speed == "guessed"
    assert "predicted from its penstock_model when it is prepared" in first.reason
    assert not client.jobs().jobs, "a quote ran something"
    job = client.submit(spec).job.id
    until(lambda: client.job(job).quote is not None, "its answer", 60)
    told = client.job(job).quote
    assert told is not None
    assert (told.verdict, told.speed) == ("promised", "predicted")
    assert any("its speed on cpu follows from its penstock_model" in note.text for note in client.why(job).entries)
    assert client.quote(spec).speed == "predicted", "what was predicted once is known"
    until(lambda: client.job(job).state == "running", "its start", 60)
    (tmp_path / "go").touch()
    until(lambda: client.quote(spec).speed == "measured", "a measured speed", 60)
    later = client.quote(spec)
    assert "penstock_model" not in later.reason
    assert later.device_seconds > 19.0, "400 steps of 50 ms each"
    client.cancel(job)


def test_a_model_that_fails_leaves_a_guess_and_says_why(client: Client, tmp_path: Path) -> None:
    without = {key: value for key, value in _spec(tmp_path).items() if key != "global_batch"}
    assert "gives no global_batch" in client.quote(without).reason
    job = client.submit(_spec(tmp_path, inside="raise ValueError('no weights here')")).job.id
    until(lambda: client.job(job).quote is not None, "its preparation", 60)
    story = [note.text for note in client.why(job).entries]
    assert any("penstock_model could not be followed" in text and "no weights here" in text for text in story), story
    quote = client.job(job).quote
    assert quote is not None
    assert (quote.verdict, quote.speed) == ("deferred", "guessed"), "nothing is promised on a guess"
    client.cancel(job)
