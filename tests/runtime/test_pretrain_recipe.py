"""The recipe of examples/pretrain.py is one training, whatever happens to its world: same samples, same curve."""

import csv
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from penstock.core import InputError, StateSuspended, SuspendOrder
from penstock.elastic import metric_writer
from penstock.tools import read_scalars
from tests.runtime.agent import Agent, Zygote
from tests.runtime.data.corpora import documents, write
from tests.runtime.test_alone import finish

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "pretrain.py"
STEPS = 14


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("corpora")
    for number in range(2):
        texts = [np.arange(text[0], text[0] + len(text)) % 120 for text in documents(400, seed=number)]
        write(folder / str(number), texts, vocabulary=120)
    return [folder / "0", folder / "1"]


def words(corpora: list[Path], out: Path, *more: str) -> list[str]:
    mixed = ["--data", f"{corpora[0]}=0.75", "--data", f"{corpora[1]}=0.25"]
    own = ["--size", "tiny", "--sequence", "32", "--batch", "6", "--micro-batch", "2", "--steps", str(STEPS)]
    told = ["--warmup", "3", "--log-every", "1", "--metrics", "csv", "--out", str(out)]
    return [*mixed, *own, "--pack", "best_fit", "--documents", "--recompute", "--precision", "fp32", *told, *more]


def told(out: Path, name: str) -> dict[int, float]:
    with (out / "metrics.csv").open() as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["metric"] == name}


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, corpora: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    more = ("--eval-data", str(corpora[1]), "--eval-every", "7", "--peak-tflops", "0.1")
    printed = finish(zygote, "undisturbed", folder, SCRIPT, *words(corpora, folder, *more))
    assert f"done after {STEPS} steps" in printed
    return folder


def test_it_learns_and_tells_what_it_costs(undisturbed: Path) -> None:
    loss = told(undisturbed, "loss")
    assert sorted(loss) == list(range(1, STEPS + 1))
    assert loss[STEPS] < loss[1]
    assert sorted(told(undisturbed, "eval_loss")) == [7, 14]
    assert all(0 < share < 1 for share in told(undisturbed, "mfu").values())
    assert all(0 <= share <= 1 for share in told(undisturbed, "input_stall").values())
    assert told(undisturbed, "lr")[3] == pytest.approx(6e-4)
    assert told(undisturbed, "lr")[STEPS] == pytest.approx(6e-5)


@pytest.mark.parametrize(
    ("strategy", "before", "after"), [("ddp", ["w0", "w1"], ["w0", "w1", "w2"]), ("fsdp2", ["w0", "w1"], ["w0"])]
)
def test_it_goes_on_at_another_width_with_the_same_samples_and_the_same_curve(
    launch: Callable[..., Agent], corpora: list[Path], undisturbed: Path, tmp_path: Path,
    strategy: str, before: list[str], after: list[str],
) -> None:  # fmt: skip
    agent = launch(*words(corpora, tmp_path, "--strategy", strategy), script=str(SCRIPT))
    agent.start(*before)
    agent.wait_joined()
    for worker in before:
        agent.send(worker, SuspendOrder())
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    suspended = agent.heard(StateSuspended)[0].step
    assert suspended >= 1
    agent.start(*after)
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    assert told(tmp_path, "loss") == pytest.approx(told(undisturbed, "loss"), rel=2e-4)
    assert told(tmp_path, "grad_norm") == pytest.approx(told(undisturbed, "grad_norm"), rel=2e-3)


def test_it_refuses_to_go_on_with_other_data(zygote: Zygote, corpora: list[Path], tmp_path: Path) -> None:
    saved = {"PENSTOCK_CHECKPOINT_DIR": str(tmp_path / "saved")}
    short = ["--size", "tiny", "--sequence", "32", "--batch", "2", "--checkpoint-every", "1h"]
    finish(zygote, "on its data", tmp_path, SCRIPT, "--data", str(corpora[0]), "--steps", "2", *short, **saved)
    with pytest.raises(AssertionError, match="training began on other data"):
        finish(zygote, "on other data", tmp_path, SCRIPT, "--data", str(corpora[1]), "--steps", "3", *short, **saved)


def test_the_job_file_is_one_and_the_hook_offers_the_model() -> None:
    from penstock.predict import Setup, training_task
    from penstock.spec import load_job_file

    job = load_job_file(ROOT / "examples" / "pretrain.yaml")
    assert job.script == "examples/pretrain.py"
    assert (ROOT / job.script).exists()
    recipe = module("pretrain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRETRAIN_SIZE", "tiny")
        assert training_task(recipe.penstock_model, 2, Setup(), "meta").forward().device.type == "meta"


def module(name: str) -> ModuleType:
    """A file of the examples as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location(name, SCRIPT.with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return found


def test_documents_do_not_see_each_other_and_do_not_care_where_they_begin() -> None:
    llama = module("llama")
    torch.manual_seed(0)
    model = llama.Llama(llama.Shape(layers=2, width=32, heads=4, kv_heads=2, hidden=48, vocabulary=50, sequence=24))
    first, second = torch.randint(0, 50, (1, 10)), torch.randint(0, 50, (1, 14))
    positions = torch.from_numpy(np.concatenate((np.arange(10), np.arange(14))))[None]
    together = model(torch.cat((first, second), dim=1), positions)
    torch.testing.assert_close(together[:, :10], model(first), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together[:, 10:], model(second), rtol=1e-4, atol=1e-5)


def test_activations_that_are_computed_again_give_the_same_gradients() -> None:
    llama = module("llama")
    shape = llama.Shape(layers=2, width=32, heads=4, kv_heads=4, hidden=48, vocabulary=50, sequence=16)
    tokens, gradients = torch.randint(0, 50, (2, 16)), []
    for recompute in (False, True):
        torch.manual_seed(1)
        model = llama.Llama(shape, recompute=recompute)
        model(tokens).square().mean().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_event_files_are_what_tensorboard_reads(tmp_path: Path) -> None:
    writer = metric_writer("tensorboard", tmp_path / "logs")
    writer.write(3, {"loss": 0.5, "lr": 1e-3})
    writer.write(4, {"loss": 0.25})
    writer.close()
    (file,) = (tmp_path / "logs").iterdir()
    scalars, _ = read_scalars(file.read_bytes())
    losses = [(one.step, one.value) for one in scalars if one.tag == "loss"]
    assert losses == [(3, 0.5), (4, 0.25)]


def test_steps_that_are_done_again_replace_those_in_the_table(tmp_path: Path) -> None:
    for first, value in ((1, 1.0), (3, 2.0)):
        writer = metric_writer("csv", tmp_path)
        for step in range(first, first + 4):
            writer.write(step, {"loss": value})
        writer.close()
    assert told(tmp_path, "loss") == {1: 1.0, 2: 1.0, 3: 2.0, 4: 2.0, 5: 2.0, 6: 2.0}


def test_mlflow_is_written_where_it_is_installed_and_named_where_not(tmp_path: Path) -> None:
    if importlib.util.find_spec("mlflow") is None:
        with pytest.raises(InputError, match=r"needs mlflow.*pip install .*\[tracking\]"):
            metric_writer("mlflow", tmp_path)
    else:
        writer = metric_writer("mlflow", tmp_path)
        writer.write(1, {"loss": 0.5})
        writer.close()
        assert (tmp_path / "mlflow.db").exists()
    with pytest.raises(InputError, match="unknown kind of metrics 'wandb'"):
        metric_writer("wandb", tmp_path)
