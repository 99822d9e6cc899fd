"""Models by name and from config files: sizes as published, bad ones refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.core import InputError, UnknownNameError
from penstock.parallel.families import MODELS, Family, decoder_only, family_named
from penstock.parallel.families.config_file import COUNTED

LIBRARY = json.loads(Path(__file__).with_name("library_parameters.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("gpt-350m", 0.355), ("gpt-1.3b", 1.31), ("gpt-6.7b", 6.65), ("gpt-13b", 12.85), ("gpt-175b", 174.6),
        ("llama-7b", 6.74), ("llama-13b", 13.02), ("llama-70b", 68.98), ("llama-8b", 8.03), ("llama-405b", 405.9),
        ("t5-770m", 0.74), ("t5-3b", 2.85), ("t5-11b", 11.3), ("t5-22b", 22.6),
        ("wide-resnet-500m", 0.5), ("wide-resnet-2b", 1.97), ("wide-resnet-13b", 12.6), ("dit-xl", 0.675),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_papers(name: str, billions: float) -> None:
    assert family_named(name).parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_every_name_makes_a_chain_whose_kinds_carry_work(name: str) -> None:
    family = family_named(name)
    chain = family.chain()
    assert len(family.works) == len(chain.kinds)
    assert chain.size == sum(len(part) * count for part, count in family.parts)
    assert family.training_flops > 0
    assert np.count_nonzero(chain.starts_layer) == family.layers


def test_flops_follow_six_times_parameters_and_tokens() -> None:
    family = family_named("gpt-175b", 2048)
    assert family.training_flops == pytest.approx(6 * family.parameters * 2048, rel=0.05)


def test_kept_bytes_are_those_of_korthikanti() -> None:
    family = decoder_only("x", hidden=4096, layers=4, heads=32, vocabulary=51200, tokens=2048, fused_attention=False)
    kept = sum(work.kept.total for work in family.parts[1][0])
    assert kept == pytest.approx(2048 * 4096 * (34 + 5 * 32 * 2048 / 4096))
    fused = decoder_only("x", hidden=4096, layers=4, heads=32, vocabulary=51200, tokens=2048)
    kept_fused = sum(work.kept.total for work in fused.parts[1][0])
    assert kept_fused == pytest.approx(2048 * 4096 * 34 + 4 * 32 * 2048)


def test_tensor_parallel_ranks_share_what_is_split_and_repeat_the_rest() -> None:
    layer = family_named("gpt-1.3b").parts[1][0]
    one, eight = (sum(work.kept.at(tp) for work in layer) for tp in (1, 8))
    with_sequence = sum(work.kept.at(8, sequence_parallel=True) for work in layer)
    assert one > eight > one / 8
    assert with_sequence == pytest.approx(one / 8)


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'gpt-13b'"):
        family_named("gpt-13bb")


def test_images_have_no_tokens() -> None:
    with pytest.raises(InputError, match="images have no tokens"):
        family_named("wide-resnet-2b", 1024)


@pytest.mark.parametrize("tokens", [0, -5, 10**9])
def test_impossible_lengths_are_refused(tokens: int) -> None:
    with pytest.raises(InputError, match="tokens"):
        family_named("gpt-1.3b", tokens)


class TestConfigFiles:
    def write(self, folder: Path, **fields: object) -> Path:
        path = folder / "config.json"
        path.write_text(json.dumps(fields), encoding="utf-8")
        return path

    def read(self, folder: Path, **fields: object) -> Family:
        return family_named(str(self.write(folder, **fields)))

    def test_gpt2(self, tmp_path: Path) -> None:
        family = self.read(
            tmp_path, model_type="gpt2", n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257
        )
        assert family.parameters / 1e6 == pytest.approx(124.4, rel=0.01)
        assert (family.tokens, family.style) == (1024, "gpt")

    def test_llama_with_grouped_heads(self, tmp_path: Path) -> None:
        family = self.read(
            tmp_path, model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
            num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192,
        )  # fmt: skip
        assert family.parameters / 1e9 == pytest.approx(8.03, rel=0.01)
        assert (family.kv_heads, family.style) == (8, "llama")

    def test_t5_and_bert(self, tmp_path: Path) -> None:
        t5 = self.read(
            tmp_path, model_type="t5", d_model=512, num_layers=6, num_heads=8, d_kv=64, d_ff=2048, vocab_size=32128
        )
        assert t5.parameters / 1e6 == pytest.approx(60.5, rel=0.03)
        bert = self.read(
            tmp_path, model_type="bert", hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
            intermediate_size=3072, vocab_size=30522, max_position_embeddings=512,
        )  # fmt: skip
        assert bert.parameters / 1e6 == pytest.approx(109, rel=0.03)
        assert bert.style == "bert"

    def test_parameters_are_those_of_the_library(self, tmp_path: Path) -> None:
        """To the last one, for every architecture whose count is promised."""
        kinds = set()
        for name, known in LIBRARY["models"].items():
            kinds.add(known["config"]["model_type"])
            family = self.read(tmp_path, **known["config"])
            assert int(family.parameters) == known["parameters"], name
        assert kinds == set(COUNTED)

    def test_experts_add_weights_but_little_work(self, tmp_path: Path) -> None:
        mixtral = self.read(tmp_path, **LIBRARY["models"]["mixtral-8x7b"]["config"])
        mistral = self.read(tmp_path, **LIBRARY["models"]["mistral-7b"]["config"])
        assert mixtral.parameters > 6 * mistral.parameters
        assert mixtral.training_flops < 2 * mistral.training_flops
        assert (mixtral.experts, mixtral.active_experts) == (8, 2)

    def test_windows_bound_the_work_of_long_sequences(self, tmp_path: Path) -> None:
        config = LIBRARY["models"]["mistral-7b"]["config"]
        narrow = family_named(str(self.write(tmp_path, **config)), 32768)
        wide = family_named(str(self.write(tmp_path, **{**config, "sliding_window": None})), 32768)
        assert narrow.training_flops < 0.85 * wide.training_flops
        assert (narrow.window, wide.window) == (4096, 0)

    def test_heads_may_be_wider_than_the_hidden_size_divides(self, tmp_path: Path) -> None:
        family = self.read(tmp_path, **LIBRARY["models"]["gemma-7b"]["config"])
        assert family.head_dim * family.heads == 4096 != family.hidden

    def test_names_of_the_hub_are_looked_up_on_this_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(InputError, match="hf download Qwen/Qwen3-8B"):
            family_named("Qwen/Qwen3-8B")
        folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "1a2b"
        folder.mkdir(parents=True)
        self.write(folder, **LIBRARY["models"]["qwen3-8b"]["config"])
        family = family_named("Qwen/Qwen3-8B")
        assert (family.name, int(family.parameters)) == ("qwen3-8b", 8190735360)

    def test_missing_field_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="has no hidden_size"):
            self.read(tmp_path, model_type="llama", num_hidden_layers=2, num_attention_heads=2, vocab_size=10)

    def test_wrong_values_are_refused(self, tmp_path: Path) -> None:
        fields = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 10}
        with pytest.raises(InputError, match="hidden size 64 with 3 attention heads"):
            self.read(tmp_path, **fields, hidden_size=64)
        with pytest.raises(InputError, match="hidden_size is -1"):
            self.read(tmp_path, **fields, hidden_size=-1)

    def test_unknown_architecture_and_broken_files(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match="model_type"):
            self.read(tmp_path, model_type="mamba")
        broken = tmp_path / "broken.json"
        broken.write_text("{", encoding="utf-8")
        with pytest.raises(InputError, match="not JSON"):
            family_named(str(broken))
        with pytest.raises(InputError, match="cannot read"):
            family_named(str(tmp_path / "absent.json"))
