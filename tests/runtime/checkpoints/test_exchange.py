"""Weights leave and come back bit for bit, in files that the libraries of Hugging Face read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from penstock.core import InputError
from penstock.elastic import Checkpoints, export_weights, import_weights
from penstock.runtime.checkpoints.exchange.names import FAMILIES
from penstock.runtime.checkpoints.exchange.safetensors import read_safetensors, write_safetensors
from penstock.runtime.checkpoints.state import Parts

HIDDEN, WIDE, LAYERS, WORDS = 8, 24, 2, 32


def holder(**parts: nn.Module) -> nn.Module:
    module = nn.Module()
    for name, part in parts.items():
        module.add_module(name, part)
    return module


def llama(seed: int) -> nn.Module:
    """Nothing but the weights of a small Llama, under their names in Hugging Face's library."""
    torch.manual_seed(seed)
    linear = {"bias": False}
    layers = [
        holder(
            self_attn=holder(**{f"{one}_proj": nn.Linear(HIDDEN, HIDDEN, **linear) for one in "qkvo"}),
            mlp=holder(
                gate_proj=nn.Linear(HIDDEN, WIDE, **linear), up_proj=nn.Linear(HIDDEN, WIDE, **linear),
                down_proj=nn.Linear(WIDE, HIDDEN, **linear),
            ),
            input_layernorm=nn.RMSNorm(HIDDEN), post_attention_layernorm=nn.RMSNorm(HIDDEN),
        )
        for _ in range(LAYERS)
    ]  # fmt: skip
    inner = holder(embed_tokens=nn.Embedding(WORDS, HIDDEN), layers=nn.ModuleList(layers), norm=nn.RMSNorm(HIDDEN))
    return holder(model=inner, lm_head=nn.Linear(HIDDEN, WORDS, **linear))


def gpt2(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = [
        holder(
            ln_1=nn.LayerNorm(HIDDEN), ln_2=nn.LayerNorm(HIDDEN),
            attn=holder(c_attn=nn.Linear(HIDDEN, 3 * HIDDEN), c_proj=nn.Linear(HIDDEN, HIDDEN)),
            mlp=holder(c_fc=nn.Linear(HIDDEN, 4 * HIDDEN), c_proj=nn.Linear(4 * HIDDEN, HIDDEN)),
        )
        for _ in range(LAYERS)
    ]  # fmt: skip
    words, places, norm = nn.Embedding(WORDS, HIDDEN), nn.Embedding(16, HIDDEN), nn.LayerNorm(HIDDEN)
    inner = holder(wte=words, wpe=places, h=nn.ModuleList(layers), ln_f=norm)
    return holder(transformer=inner)


def saved(folder: Path, model: nn.Module) -> Path:
    parts = Parts(torch.device("cpu"))
    parts.add("model", model)
    files = Checkpoints(folder)
    files.begin(parts.capture(7))
    files.settle()
    return folder


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


MADE = {"llama": llama, "gpt2": gpt2}
GIVEN: dict[str, dict[str, Any]] = {
    "llama": {"num_attention_heads": 2, "num_key_value_heads": 2},
    "gpt2": {"n_head": 2},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_goes_out_in_several_files_and_comes_back_bit_for_bit(tmp_path: Path, family: str) -> None:
    model = MADE[family](1)
    place, out = saved(tmp_path / "saved", model), tmp_path / "out"
    assert export_weights(place, out, hf=family, config=GIVEN[family], file_bytes=2000) == 7
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in model.state_dict().values())
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == [FAMILIES[family].architecture]
    assert config[FAMILIES[family].layers[0]] == LAYERS
    assert config["vocab_size"] == WORDS
    assert config["tie_word_embeddings"] is (family == "gpt2")
    again = MADE[family](2)
    import_weights(again, out, hf=family)
    assert_same_weights(model, again)


def test_gpt2_keeps_its_layers_transposed(tmp_path: Path) -> None:
    model = gpt2(1)
    export_weights(saved(tmp_path / "saved", model), tmp_path / "out", hf="gpt2", config=GIVEN["gpt2"])
    written = read_safetensors(tmp_path / "out" / "model.safetensors")
    name = "transformer.h.0.attn.c_attn.weight"
    assert torch.equal(written[name], model.state_dict()[name].T)


def test_a_model_without_the_outer_name_gets_it(tmp_path: Path) -> None:
    inner = llama(1).get_submodule("model")
    export_weights(saved(tmp_path / "saved", inner), tmp_path / "out", hf="llama", config=GIVEN["llama"])
    assert "model.embed_tokens.weight" in read_safetensors(tmp_path / "out" / "model.safetensors")
    again = llama(2).get_submodule("model")
    import_weights(again, tmp_path / "out", hf="llama")
    assert_same_weights(inner, again)


def test_without_a_family_names_stay(tmp_path: Path) -> None:
    model = nn.Linear(3, 4)
    export_weights(saved(tmp_path / "saved", model), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.safetensors"}
    again = nn.Linear(3, 4)
    import_weights(again, tmp_path / "out")
    assert_same_weights(model, again)


def test_the_package_of_the_format_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors.torch")
    tensors = {
        "a": torch.randn(3, 5), "half": torch.randn(7).to(torch.bfloat16), "flags": torch.tensor([True, False, True]),
        "count": torch.tensor(5), "none": torch.empty(0, 2),
    }  # fmt: skip
    write_safetensors(tmp_path / "ours", tensors, {"format": "pt"})
    theirs.save_file(tensors, str(tmp_path / "theirs"))
    for found in (theirs.load_file(str(tmp_path / "ours")), read_safetensors(tmp_path / "theirs")):
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00" * 8, (10**9).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]",
        (5).to_bytes(8, "little") + b"{nope",
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match="safetensors format"):
        read_safetensors(tmp_path / "file")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 80]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, {"dtype": "X", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, {"dtype": "F32"}, 5,
    ],
)  # fmt: skip
def test_a_header_that_points_elsewhere_is_refused(tmp_path: Path, entry: Any) -> None:
    header = json.dumps({"w": entry}).encode()
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(InputError, match="'w'"):
        read_safetensors(tmp_path / "file")


def test_refusals_change_nothing(tmp_path: Path) -> None:
    place = saved(tmp_path / "saved", llama(1))
    for options, said in (
        ({"hf": "lama"}, "lama"),
        ({"hf": "llama"}, "num_attention_heads"),
        ({"hf": "gpt2", "config": GIVEN["gpt2"]}, "GPT2LMHeadModel does not have"),
        ({"step": 8}, "step 8"),
        ({"model": "other"}, "other"),
    ):
        with pytest.raises(InputError, match=said):
            export_weights(place, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    export_weights(place, tmp_path / "out")
    with pytest.raises(InputError, match="something is already"):
        export_weights(place, tmp_path / "out")
    other = gpt2(3)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(InputError, match="does not have"):
        import_weights(other, tmp_path / "out")
    with pytest.raises(InputError, match=r"no model\.safetensors"):
        import_weights(other, tmp_path / "saved")
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())


def test_published_weights_are_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    model, tied = nn.Linear(3, 4), holder(first=nn.Linear(2, 2, bias=False), last=nn.Linear(2, 2, bias=False))
    tied.get_submodule("last").weight = tied.get_submodule("first").weight
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for missing in weights:
        with torch.no_grad():
            model.weight.zero_()
        write_safetensors(tmp_path / "model.safetensors", {k: v for k, v in weights.items() if k != missing}, {})
        with pytest.raises(InputError, match=f"without the weight '{missing}'"):
            import_weights(model, tmp_path)
        assert not model.weight.any(), "nothing is changed"
    write_safetensors(tmp_path / "model.safetensors", {"first.weight": torch.eye(2)}, {})
    import_weights(tied, tmp_path)
    assert torch.equal(tied.get_parameter("last.weight"), torch.eye(2)), "one tensor is enough for tied weights"
