"""From what a person types to a model: scripts and modules that do not offer one say what is wrong with them."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from penstock.core import InputError
from penstock.predict import Setup, load_hook, offers_hook, training_task
from penstock.predict.model_sources import setup_of


def script(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('no data here')", "ValueError: no data here"),
        ("def penstock_model(batch:\n    pass", "SyntaxError"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)", "ends with status 3 when it is imported"),
        ("penstock_model = 5", "no function penstock_model"),
        ("", "no function penstock_model"),
    ],
)
def test_a_script_without_a_usable_hook_says_why(tmp_path: Path, text: str, said: str) -> None:
    before = list(sys.path)
    with pytest.raises(InputError, match=said):
        load_hook(script(tmp_path, text))
    assert sys.path == before, "where the script lies is searched only while it is imported"


def test_a_script_finds_its_neighbours_and_is_not_run(tmp_path: Path) -> None:
    script(tmp_path, "width = 7\n", "neighbour_of_ours.py")
    text = "from neighbour_of_ours import width\ndef penstock_model(batch): return width * batch\n"
    hook = load_hook(script(tmp_path, text + "if __name__ == '__main__': raise SystemExit('run')\n"))
    assert hook(2) == 14
    sys.modules.pop("neighbour_of_ours")


def test_modules_are_named_with_their_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "def small(batch): return batch\n", "our_models.py")
    script(tmp_path, "1 / 0\n", "our_broken_models.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_hook("our_models:small")(3) == 3
    with pytest.raises(InputError, match="our_models:large has no function large"):
        load_hook("our_models:large")
    with pytest.raises(InputError, match=r"our_broken_models.*ZeroDivisionError"):
        load_hook("our_broken_models:small")


def test_modules_of_the_current_directory_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "def small(batch): return 2 * batch\n", "models_beside_us.py")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_hook("models_beside_us:small")(3) == 6
    assert sys.path == before
    del sys.modules["models_beside_us"]


def test_a_script_does_not_see_the_words_of_this_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "check-ops", "--script", "train.py"])
    path = script(tmp_path, "import sys\nseen = sys.argv[:]\ndef penstock_model(batch): return seen\n")
    assert load_hook(path)(1) == [path]
    assert sys.argv[1] == "check-ops"


def test_a_script_is_looked_at_without_importing_it(tmp_path: Path) -> None:
    assert offers_hook(Path(script(tmp_path, "raise SystemExit\ndef penstock_model(batch): ...\n")))
    assert not offers_hook(Path(script(tmp_path, "print('penstock_model')\n")))
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00def penstock_model(")
    assert not offers_hook(tmp_path / "binary.py")
    assert not offers_hook(tmp_path / "missing.py")
    assert not offers_hook(tmp_path)


@pytest.mark.parametrize("told", ["'bf16'", "{'precison': 'bf16'}", "[('precision', 'bf16')]"])
def test_a_setup_that_is_none_is_refused(tmp_path: Path, told: str) -> None:
    hook = load_hook(script(tmp_path, f"penstock_setup = {told}\ndef penstock_model(batch): ...\n"))
    with pytest.raises(InputError, match="some of precision, layout, optimizer"):
        setup_of(hook)


def task(offered: Any, batch: int = 4, setup: Setup | None = None) -> Any:
    return training_task(lambda _: offered, batch, setup or Setup(precision="fp32"), "cpu")


@pytest.mark.parametrize(
    "offered", [None, nn.Linear(2, 2), (nn.Linear(2, 2),), (torch.zeros(2), torch.zeros(2)), (nn.Linear(2, 2), 1, 2, 3)]
)
def test_hooks_that_return_something_else_are_told_what_to_return(offered: Any) -> None:
    with pytest.raises(InputError, match="model, inputs or model, inputs, loss"):
        task(offered)


def test_one_tensor_several_or_a_dict_are_inputs() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return self.weight * (left + 2 * right)

    left, right = torch.ones(4), torch.ones(4)
    assert task((Sum(), (left, right))).forward().item() == pytest.approx(3.0)
    assert task((Sum(), {"right": left, "left": right * 3})).forward().item() == pytest.approx(5.0)
    assert task((Sum(), (left, right), lambda output: output.sum())).forward().item() == pytest.approx(12.0)
    assert task((nn.Flatten(0), torch.full((4,), 2.0))).forward().item() == pytest.approx(2.0)


def test_a_model_without_a_number_to_minimise_is_refused() -> None:
    class Codes(nn.Module):
        def forward(self, value: torch.Tensor) -> dict[str, list[torch.Tensor]]:
            return {"codes": [value]}

    with pytest.raises(InputError, match="without a floating point output"):
        task((Codes(), torch.ones(4, dtype=torch.int64))).forward()


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="a batch of 0"):
        task((nn.Linear(2, 2), torch.ones(4, 2)), batch=0)


def test_a_task_has_the_setup_s_dtype_and_trains_only_what_is_trained() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].weight.requires_grad_(False)
    built = task((model, torch.ones(4, 2)), setup=Setup(precision="bf16"))
    assert {tensor.dtype for tensor in (*built.inputs, *built.model.parameters())} == {torch.bfloat16}
    assert [tuple(weight.shape) for weight in built.weights()] == [(3,), (1, 3), (1,)]
