"""The models that have a name: sizes as their papers publish them.

GPT after Brown et al. (2020) and the sizes of Aceso's and Megatron-LM's evaluations, Llama after Touvron et al. (2023)
and, with 128,256 words, Llama 3 (Grattafiori et al., 2024) and its small siblings of 3.2, T5 and Wide-ResNet as in
Aceso's evaluation, DiT after Peebles and Xie (2023).
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.core import InputError, UnknownNameError
from penstock.parallel.families.config_file import LLAMA_SHAPE, family_from_config
from penstock.parallel.families.family import Family
from penstock.parallel.families.hub_cache import cached_config
from penstock.parallel.families.resnet import wide_resnet
from penstock.parallel.families.transformer import decoder_only, diffusion, encoder_decoder

GPT_VOCABULARY = 51200
"""50,257 rounded up as trainers do, so that every tensor-parallel part is aligned."""
T5_VOCABULARY = 30592
T5_DECODED_SHARE = 4
"""A T5 decoder sees a quarter of the encoder's tokens, as in Aceso's evaluation (2,048 and 512)."""
LONGEST = 16_777_216

_GPT = {  # hidden, layers, heads
    "350m": (1024, 24, 16), "760m": (1536, 24, 16), "1.3b": (2048, 24, 32), "2.6b": (2560, 32, 32),
    "2.7b": (2560, 32, 32), "3.6b": (3072, 30, 32), "6.7b": (4096, 32, 32), "13b": (5120, 40, 40),
    "18b": (6144, 40, 48), "39b": (8192, 48, 64), "76b": (10240, 60, 80), "175b": (12288, 96, 96),
}  # fmt: skip
_LLAMA = {  # hidden, layers, heads, kv heads, feed-forward, vocabulary
    "1b": (2048, 16, 32, 8, 8192, 128256), "3b": (3072, 28, 24, 8, 8192, 128256),
    "7b": (4096, 32, 32, 32, 11008, 32000), "8b": (4096, 32, 32, 8, 14336, 128256),
    "13b": (5120, 40, 40, 40, 13824, 32000), "70b": (8192, 80, 64, 8, 28672, 32000),
    "3-70b": (8192, 80, 64, 8, 28672, 128256), "405b": (16384, 126, 128, 8, 53248, 128256),
}  # fmt: skip
_LLAMA_TIED = ("1b", "3b")
LLAMA_3_VOCABULARY = 128256
_T5 = {  # layers, heads, head dimension, feed-forward
    "770m": (24, 16, 64, 4096), "3b": (24, 32, 128, 16384), "6b": (24, 64, 128, 32768),
    "11b": (24, 128, 128, 65536), "22b": (48, 128, 128, 65536),
}  # fmt: skip
_RESNET = {  # blocks, base channels, width
    "500m": ((3, 4, 6, 3), 224, 2), "1b": ((3, 4, 6, 3), 320, 2), "2b": ((3, 4, 6, 3), 448, 2),
    "4b": ((3, 4, 6, 3), 640, 2), "6.8b": ((3, 4, 6, 3), 320, 16), "13b": ((3, 4, 23, 3), 320, 16),
}  # fmt: skip
_DIT = {  # hidden, layers, heads
    "s": (384, 12, 6), "b": (768, 12, 12), "l": (1024, 24, 16), "xl": (1152, 28, 16), "4b": (2304, 40, 24),
}  # fmt: skip


def _gpt(size: str, tokens: int) -> Family:
    hidden, layers, heads = _GPT[size]
    return decoder_only(
        f"gpt-{size}", hidden=hidden, layers=layers, heads=heads, vocabulary=GPT_VOCABULARY, tokens=tokens
    )


def _llama(size: str, tokens: int) -> Family:
    hidden, layers, heads, kv_heads, wide, vocabulary = _LLAMA[size]
    return decoder_only(
        f"llama-{size}", hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, feed_forward=wide,
        vocabulary=vocabulary, tokens=tokens, gated=True, dropout=False, tied=size in _LLAMA_TIED, positions=False,
        rotary_base=500_000 if vocabulary == LLAMA_3_VOCABULARY else 10_000, style="llama", **LLAMA_SHAPE,
    )  # fmt: skip


def _t5(size: str, tokens: int) -> Family:
    layers, heads, head_dim, wide = _T5[size]
    return encoder_decoder(
        f"t5-{size}", hidden=1024, layers=layers, heads=heads, head_dim=head_dim, feed_forward=wide,
        vocabulary=T5_VOCABULARY, tokens=tokens, decoded=max(1, tokens // T5_DECODED_SHARE),
    )  # fmt: skip


def _resnet(size: str, tokens: int) -> Family:
    blocks, base, width = _RESNET[size]
    if tokens:
        raise InputError(f"a sequence length for wide-resnet-{size}", "none: images have no tokens", "Leave --seq away")
    return wide_resnet(f"wide-resnet-{size}", blocks=blocks, base=base, width=width)


def _dit(size: str, tokens: int) -> Family:
    hidden, layers, heads = _DIT[size]
    return diffusion(f"dit-{size}", hidden=hidden, layers=layers, heads=heads, tokens=tokens)


_FAMILIES: dict[str, tuple[Callable[[str, int], Family], tuple[str, ...], int]] = {
    "gpt": (_gpt, tuple(_GPT), 2048),
    "llama": (_llama, tuple(_LLAMA), 4096),
    "t5": (_t5, tuple(_T5), 2048),
    "wide-resnet": (_resnet, tuple(_RESNET), 0),
    "dit": (_dit, tuple(_DIT), 256),
}

MODELS: tuple[str, ...] = tuple(f"{family}-{size}" for family, (_, sizes, _) in _FAMILIES.items() for size in sizes)
"""Every name :func:`family_named` understands."""


def family_named(name: str, tokens: int | None = None) -> Family:
    """The model called ``name`` ("gpt-13b", "llama-70b"), or the one a ``config.json`` describes.

    >>> round(family_named("gpt-13b").parameters / 1e9, 1)
    12.8
    """
    if tokens is not None and not 1 <= tokens <= LONGEST:
        raise InputError(f"a sequence of {tokens} tokens", f"1 to {LONGEST}")
    if name.endswith(".json") or Path(name).is_dir():
        return family_from_config(Path(name), tokens)
    if name.count("/") == 1 and not name.lower().startswith("dit"):
        return replace(family_from_config(cached_config(name), tokens), name=name.rpartition("/")[2].lower())
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower()).replace("dit-xl/2", "dit-xl")
    for family, (make, sizes, default) in _FAMILIES.items():
        if wanted.startswith(f"{family}-") and wanted.removeprefix(f"{family}-") in sizes:
            return make(wanted.removeprefix(f"{family}-"), default if tokens is None else tokens)
    raise UnknownNameError.of(
        "model", name, MODELS, "A config.json of the Hugging Face kind describes any other transformer"
    )
