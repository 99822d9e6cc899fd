"""Models of other libraries by their own names; modules with the interface of those libraries stand in for them."""

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from penstock.core import InputError
from penstock.predict import Setup, load_hook, predict_model, profile_named
from penstock.predict.capture import capture

FP32 = Setup(precision="fp32", optimizer="sgd")


class Pictures(nn.Module):
    def __init__(self, side: int = 224, *, heads: int = 1) -> None:
        super().__init__()
        self.pretrained_cfg = {"input_size": (3, side, side)}
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 7, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.heads = nn.ModuleList(nn.Linear(4, 10) for _ in range(heads))

    def forward(self, x: Tensor) -> Any:
        seen = self.layers(x)
        scores = [head(seen) for head in self.heads]
        return scores[0] if len(scores) == 1 else (*scores, None)


@dataclass
class WordsConfig:
    vocab_size: int = 50
    max_position_embeddings: int = 4096


class Words(nn.Module):
    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(config.vocab_size, 8), nn.Linear(8, config.vocab_size)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:
        scores = self.head(self.words(input_ids))
        return SimpleNamespace(loss=nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()))


def _installed(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    module = ModuleType(name)
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"resnet50": Pictures, "inception_v3": lambda: Pictures(heads=2)}

    def list_models(*, module: Any) -> list[str]:
        assert module.get_model is get_model, "models of pictures, not of videos or boxes"
        return sorted(made)

    def get_model(name: str, *, weights: str | None) -> nn.Module:
        assert weights is None
        return made[name]()

    models = SimpleNamespace(list_models=list_models, get_model=get_model)
    _installed(monkeypatch, "torchvision", models=models)


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, *, pretrained: bool) -> nn.Module:
        assert not pretrained
        return Pictures(int(name.split(".", maxsplit=1)[0].rsplit("_", maxsplit=1)[1]))

    names = ["vit_tiny_patch16_384", "vit_base_patch16_224"]
    _installed(monkeypatch, "timm", list_models=lambda: names, create_model=create_model)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name} is not a local folder and the hub cannot be reached\nmore")

    config = SimpleNamespace(for_model=lambda name: {"gpt2": WordsConfig, "odd": dict}[name](), from_pretrained=missing)
    causal = SimpleNamespace(_model_mapping={WordsConfig: Words}, from_config=Words)
    nothing = SimpleNamespace(_model_mapping={})
    _installed(
        monkeypatch, "transformers", CONFIG_MAPPING={"gpt2": WordsConfig, "odd": dict}, AutoConfig=config,
        AutoModelForCausalLM=causal, AutoModelForMaskedLM=nothing, AutoModelForSeq2SeqLM=nothing,
        AutoModelForImageClassification=nothing,
    )  # fmt: skip


@pytest.mark.usefixtures("torchvision")
def test_models_of_torchvision_get_pictures_of_their_size() -> None:
    _, (pictures,), _ = load_hook("torchvision:resnet50")(4)
    assert pictures.shape == (4, 3, 224, 224)
    model, (pictures,), loss = load_hook("torchvision:inception_v3")(2)
    assert pictures.shape[-1] == 299
    with torch.no_grad():
        assert float(loss(model(pictures))) > 1.5 * float(loss(model(pictures)[0])), "both heads are trained"


@pytest.mark.usefixtures("timm")
def test_models_of_timm_get_what_their_configuration_asks_for() -> None:
    _, (pictures,), _ = load_hook("timm:vit_tiny_patch16_384")(2)
    assert pictures.shape == (2, 3, 384, 384)
    _, (pictures,), _ = load_hook("timm:vit_base_patch16_224.augreg_in21k")(2)
    assert pictures.shape == (2, 3, 224, 224)
    seen = predict_model(load_hook("timm:vit_tiny_patch16_384"), 2, profile_named("h200"), FP32)
    assert seen.first.seconds > 0


@pytest.mark.usefixtures("transformers")
def test_models_of_transformers_are_trained_on_their_own_loss() -> None:
    _, inputs = load_hook("transformers:gpt2")(3)
    assert inputs["input_ids"].shape == (3, 1024), "no longer than texts usually are"
    seen = capture(load_hook("transformers:gpt2"), 3, FP32)
    assert any(each.call.family == "gemm" and 50 in each.call.dims for each in seen.calls)
    assert torch.device("meta") not in {tensor.device for tensor in inputs.values()}


@pytest.mark.usefixtures("torchvision", "timm", "transformers")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torchvision:resnet5", "Near: resnet50"),
        ("timm:vit_base_patch16_225", "Near: vit_base_patch16_224"),
        ("transformers:gpt3", "no configuration 'gpt3'.*Near: gpt2"),
        ("transformers:odd", "is a dict"),
    ],
)
def test_names_that_a_library_does_not_know(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_hook(text)


@pytest.mark.parametrize("library", ["torchvision", "timm", "transformers"])
def test_a_library_that_is_not_installed_says_how_to_get_it(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=f"pip install {library}"):
        load_hook(f"{library}:anything")
