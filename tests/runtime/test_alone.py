"""Without an agent the same script works, alone or under torchrun; what cannot work is refused in plain words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import penstock.elastic as elastic
from penstock.cli.submission.example import EXAMPLES
from penstock.core import InputError, UnknownNameError
from penstock.runtime.agent.environment import WorkerEnvironment
from tests.runtime.agent import Zygote, wait_until
from tests.tools.ports import free_port

TRAIN = Path(__file__).parent / "scripts" / "train.py"
DATA = (torch.arange(12.0)[:, None],)


def finish(zygote: Zygote, key: str, folder: Path, script: Path, *arguments: str, **env: str) -> str:
    """Run a script to its end and return what it printed."""
    out, err = folder / f"{script.stem}.out", folder / f"{script.stem}.err"
    zygote.ask(
        op="fork", id=key, argv=[str(script), *arguments], env={"OMP_NUM_THREADS": "1", **env}, cwd=str(folder),
        stdout=str(out), stderr=str(err),
    )  # fmt: skip
    found = wait_until(lambda: zygote.event("exited", key), f"exit of {script.name}")
    assert found["code"] == 0, err.read_text()
    return out.read_text()


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("gpt.py", ["--steps", "3", "--batch", "4"], "done after 3 steps"),
        ("cnn.py", ["--epochs", "1"], "done after 24 steps"),
        ("plain_torchrun.py", ["--steps", "5"], "penstock: step=5 total=5"),
    ],
)
def test_examples_run_alone(zygote: Zygote, tmp_path: Path, script: str, arguments: list[str], expected: str) -> None:
    path = EXAMPLES / script
    assert expected in finish(zygote, f"alone {script}", tmp_path, path, *arguments, TMPDIR=str(tmp_path))


def test_a_lone_run_goes_on_where_its_checkpoint_ends(zygote: Zygote, tmp_path: Path) -> None:
    checkpoints = {"PENSTOCK_CHECKPOINT_DIR": str(tmp_path / "saved")}
    finish(zygote, "first", tmp_path, TRAIN, "--steps", "10", "--save-steps", "4", **checkpoints)
    finish(zygote, "second", tmp_path, TRAIN, "--steps", "15", **checkpoints)
    steps = [json.loads(line)["step"] for line in (tmp_path / "step-w0").read_text().splitlines()]
    assert steps == list(range(15))


def test_torchrun_without_an_agent_is_a_world_that_stays_as_it_is(zygote: Zygote, tmp_path: Path) -> None:
    port = str(free_port())
    for rank in ("0", "1"):
        zygote.ask(
            op="fork", id=f"torchrun {rank}", argv=[str(TRAIN), "--steps", "5"], cwd=str(tmp_path),
            env={
                "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                "OMP_NUM_THREADS": "1", "PENSTOCK_WORKER": f"w{rank}",
            },
        )  # fmt: skip
    for rank in ("0", "1"):
        found = wait_until(lambda rank=rank: zygote.event("exited", f"torchrun {rank}"), f"exit of rank {rank}")
        assert found["code"] == 0
    ends = [json.loads((tmp_path / f"end-w{rank}").read_text()) for rank in range(2)]
    assert ends[0] == ends[1]
    assert ends[0]["completed"] == 5


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[elastic.Run]:
    for name in ("RANK", "WORLD_SIZE", "PENSTOCK_AGENT", "PENSTOCK_CHECKPOINT_DIR", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    made = elastic.init()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"global_batch": 0, "steps": 1}, "global_batch=0"),
        ({"global_batch": 4}, "exactly one of them"),
        ({"global_batch": 4, "steps": 1, "epochs": 1}, "exactly one of them"),
        ({"global_batch": 4, "steps": 0}, "at least 1"),
        ({"global_batch": 4, "epochs": -1}, "at least 1"),
        ({"global_batch": 4, "steps": 1, "micro_batch": 0}, "micro_batch=0"),
    ],
)
def test_impossible_loops_are_refused(run: elastic.Run, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run.steps(DATA, **options)


def test_a_policy_for_losses_that_does_not_exist_is_refused_before_anything_begins() -> None:
    with pytest.raises(UnknownNameError, match="rollback"):
        elastic.init(watch_loss="rolback")


def test_data_that_cannot_be_indexed_is_refused(run: elastic.Run) -> None:
    with pytest.raises(InputError, match="map-style"):
        run.steps(iter([1, 2]), global_batch=1, steps=1)
    with pytest.raises(InputError, match="lengths 3, 4"):
        run.steps((torch.zeros(3), torch.zeros(4)), global_batch=1, steps=1)


def test_parts_must_have_a_state_and_a_name_of_their_own(run: elastic.Run) -> None:
    model = run.wrap(torch.nn.Linear(1, 1))
    run.attach(model=model)
    saves = type("Saves", (), {"state_dict": dict})()
    loads = type("Loads", (), {"load_state_dict": print})()
    for stateless in (3, saves, loads):
        with pytest.raises(InputError, match="has no state"):
            run.attach(part=stateless)
    with pytest.raises(InputError, match="two parts are called 'model'"):
        run.wrap(torch.nn.Linear(1, 1))
    with pytest.raises(InputError, match="wrapped already"):
        run.wrap(model)
    with pytest.raises(UnknownNameError, match="Did you mean 'fsdp2'"):
        run.wrap(torch.nn.Linear(1, 1), strategy="fsdp", name="other")


def test_an_optimizer_of_a_model_that_was_not_wrapped_is_refused(run: elastic.Run) -> None:
    run.wrap(torch.nn.Linear(1, 1))
    run.attach(optimizer=torch.optim.SGD(torch.nn.Linear(1, 1).parameters()))
    with pytest.raises(InputError, match="not in the run"):
        run.steps(DATA, global_batch=4, steps=1)


def test_a_loop_that_forgets_the_with_block_is_told_so(run: elastic.Run) -> None:
    steps = run.steps(DATA, global_batch=4, steps=2)
    next(steps)
    with pytest.raises(InputError, match="`with step:`"):
        next(steps)


@pytest.mark.parametrize(
    "options", [{"checkpoint_every": 0}, {"checkpoint_every": "-5m"}, {"checkpoint_steps": -1}, {"keep": 0}]
)
def test_impossible_checkpoint_rules_are_refused(options: dict[str, int | str], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        elastic.init(checkpoint_dir=tmp_path, **options)


def test_the_environment_is_read_as_launchers_write_it() -> None:
    assert WorkerEnvironment.from_environment({}) == WorkerEnvironment()
    torchrun = WorkerEnvironment.from_environment(
        {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1"}
    )
    assert (torchrun.rank, torchrun.size, torchrun.local_rank, torchrun.rendezvous) == (2, 4, 1, "env://")
    with pytest.raises(InputError, match="WORLD_SIZE='many'"):
        WorkerEnvironment.from_environment({"WORLD_SIZE": "many"})
