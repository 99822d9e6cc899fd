"""A model from a ``config.json`` of the Hugging Face kind: the handful of fields that decide its shape."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core import InputError, UnknownNameError
from penstock.parallel.families.family import Family
from penstock.parallel.families.transformer import decoder_only, encoder_decoder

GPT_LIKE = ("gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "gpt_bigcode")
LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "olmo", "internlm2", "yi", "stablelm")
BERT_LIKE = ("bert", "roberta", "distilbert", "electra", "deberta", "xlm-roberta", "vit")
T5_LIKE = ("t5", "mt5", "umt5", "longt5")
KNOWN = (*GPT_LIKE, *LLAMA_LIKE, *BERT_LIKE, *T5_LIKE)
_LONGEST_DEFAULT = 4096

_LARGEST_BYTES = 4 << 20


def family_from_config(path: Path, tokens: int | None = None) -> Family:
    """The model that the file (or the folder with a ``config.json``) describes."""
    path = path / "config.json" if path.is_dir() else path
    config = _read(path)
    kind = str(config.get("model_type", "")).lower()
    if kind not in KNOWN:
        raise UnknownNameError.of(f"model_type in {path}", kind, KNOWN)
    fields = _Fields(path, config)
    name = f"{path.parent.name or kind}" if path.name == "config.json" else path.stem
    return _t5(name, fields, tokens) if kind in T5_LIKE else _stack(name, kind, fields, tokens)


def _stack(name: str, kind: str, fields: "_Fields", tokens: int | None) -> Family:
    hidden = fields.number("hidden_size", "n_embd", "d_model", "dim")
    heads = fields.number("num_attention_heads", "n_head", "n_heads")
    if hidden % heads:
        raise InputError(
            f"{fields.path}: hidden size {hidden} with {heads} attention heads", "a hidden size the heads divide"
        )
    llama, bert = kind in LLAMA_LIKE, kind in BERT_LIKE
    length = fields.optional("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
    return decoder_only(
        name, hidden=hidden, heads=heads, layers=fields.number("num_hidden_layers", "n_layer", "n_layers"),
        kv_heads=fields.optional("num_key_value_heads", "num_kv_heads") or heads,
        feed_forward=fields.optional("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size") or 4 * hidden,
        vocabulary=fields.number("vocab_size"), tokens=tokens or min(length or 2048, _LONGEST_DEFAULT),
        gated=llama, dropout=not llama, causal=not bert, positions=not llama,
        tied=fields.flag("tie_word_embeddings", not llama), style="llama" if llama else "bert" if bert else "gpt",
    )  # fmt: skip


def _t5(name: str, fields: "_Fields", tokens: int | None) -> Family:
    length = tokens or fields.optional("n_positions") or 512
    return encoder_decoder(
        name, hidden=fields.number("d_model"), layers=fields.number("num_layers"), heads=fields.number("num_heads"),
        head_dim=fields.number("d_kv"), feed_forward=fields.number("d_ff"), vocabulary=fields.number("vocab_size"),
        decoder_layers=fields.optional("num_decoder_layers") or 0, tokens=length, decoded=max(1, length // 4),
    )  # fmt: skip


def _read(path: Path) -> Mapping[str, Any]:
    """Servers read such files in the middle of requests: a pipe would be waited for, and a huge file fill memory."""
    if path.exists() and (not path.is_file() or path.stat().st_size > _LARGEST_BYTES):
        raise InputError(f"{path} is no file of at most {_LARGEST_BYTES >> 20} MiB", "a config.json with a model_type")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}", "a config.json with a model_type") from problem
    except ValueError as problem:
        raise InputError(f"{path} is not JSON: {problem}", "a config.json with a model_type") from problem
    if not isinstance(config, dict):
        raise InputError(f"{path} holds a {type(config).__name__}", "an object with model_type, hidden_size, …")
    return config


class _Fields:
    """Numbers of a config under whichever name the architecture uses."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._config = config

    def number(self, *names: str) -> int:
        value = self.optional(*names)
        if value is None:
            raise InputError(f"{self.path} has no {names[0]}", f"one of {', '.join(names)}")
        return value

    def optional(self, *names: str) -> int | None:
        for name in names:
            value = self._config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{self.path}: {name} is {value!r}", "a whole number of at least 1")
            return value
        return None

    def flag(self, name: str, default: bool) -> bool:
        value = self._config.get(name, default)
        if not isinstance(value, bool):
            raise InputError(f"{self.path}: {name} is {value!r}", "true or false")
        return value
