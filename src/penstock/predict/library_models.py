"""Models of torchvision, timm and transformers by the names those libraries give them: ``timm:vit_base_patch16_224``.

Nothing is downloaded that the library does not already have: weights are never asked for, and of transformers a kind of
model (``gpt2``, ``bert``, ``llama``) stands for its default configuration. Another name of its hub, or a folder with a
``config.json``, is read as the library reads it.
"""

import difflib
import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from penstock.core import InputError

_SIDE, _SIDES = 224, {"inception_v3": 299}
"""Pixels of a side, where a library does not say."""
_MOST_WORDS = 1024
"""Longer texts than this are cut: what a model could take is not what it is usually trained on."""
_SUGGESTED = 5


def library_hook(library: str, name: str) -> Callable[[int], Any]:
    """A function of the batch size that returns model, inputs and loss."""
    return _BUILDERS[library](_imported(library), name)


def _imported(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as problem:
        raise InputError(
            f"{library} cannot be imported: {problem}", f"{library} installed beside Penstock",
            f"Run: pip install {getattr(problem, 'name', None) or library}",
        ) from None  # fmt: skip


def _torchvision(library: Any, name: str) -> Callable[[int], Any]:
    models = library.models
    _known("torchvision", name, models.list_models(module=models))
    side = _SIDES.get(name, _SIDE)
    return partial(_pictures, lambda: models.get_model(name, weights=None), lambda _: (3, side, side))


def _timm(library: Any, name: str) -> Callable[[int], Any]:
    _known("timm", name.partition(".")[0], library.list_models())
    return partial(_pictures, lambda: library.create_model(name, pretrained=False), _input_size)


def _input_size(model: Any) -> tuple[int, ...]:
    told = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None) or {}
    return tuple(told.get("input_size", (3, _SIDE, _SIDE)))


def _pictures(build: Callable[[], Any], size_of: Callable[[Any], tuple[int, ...]], batch: int) -> Any:
    import torch

    model = build()
    return model, (torch.randn(batch, *size_of(model)),), partial(_class_loss, batch)


def _class_loss(batch: int, output: Any) -> Any:
    """Of every head: Inception and GoogLeNet have more than one."""
    import torch
    from torch.nn.functional import cross_entropy

    heads = [output] if isinstance(output, torch.Tensor) else [head for head in output if head is not None]
    targets = torch.zeros(batch, dtype=torch.long, device=heads[0].device)
    return sum(cross_entropy(head, targets) for head in heads)


def _transformers(library: Any, name: str) -> Callable[[int], Any]:
    config = _configuration(library, name)
    for task, make in _TASKS.items():
        group = getattr(library, task)
        if type(config) in group._model_mapping:
            return partial(make, group, config)
    raise InputError(
        f"transformers:{name} is a {type(config).__name__}", "a model of words or of classes of pictures",
        "Write def penstock_model(batch): return model, inputs, loss",
    )  # fmt: skip


def _configuration(library: Any, name: str) -> Any:
    if name in library.CONFIG_MAPPING:
        return library.AutoConfig.for_model(name)
    try:
        return library.AutoConfig.from_pretrained(name)
    except Exception as problem:
        near = _near(name, library.CONFIG_MAPPING)
        raise InputError(
            f"transformers has no configuration {name!r}: {str(problem).splitlines()[0]}",
            "a kind of model, a name of its hub, or a folder with config.json", near,
        ) from None  # fmt: skip


def _texts(group: Any, config: Any, batch: int) -> Any:
    import torch

    longest = getattr(config, "max_position_embeddings", None) or _MOST_WORDS
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = config.pad_token_id or 0
    words = torch.zeros(batch, min(longest, _MOST_WORDS), dtype=torch.long)
    return group.from_config(config), {"input_ids": words, "labels": words}


def _labelled_pictures(group: Any, config: Any, batch: int) -> Any:
    import torch

    side = getattr(config, "image_size", _SIDE) or _SIDE
    channels = getattr(config, "num_channels", 3)
    pixels = torch.randn(batch, channels, *(side if isinstance(side, list | tuple) else (side, side)))
    return group.from_config(config), {"pixel_values": pixels, "labels": torch.zeros(batch, dtype=torch.long)}


_TASKS: dict[str, Callable[[Any, Any, int], Any]] = {
    "AutoModelForMaskedLM": _texts,
    "AutoModelForSeq2SeqLM": _texts,
    "AutoModelForCausalLM": _texts,
    "AutoModelForImageClassification": _labelled_pictures,
}
"""In this order: BERT can be made a causal model too, T5 has no other head."""
_BUILDERS = {"torchvision": _torchvision, "timm": _timm, "transformers": _transformers}
LIBRARIES = tuple(_BUILDERS)


def _known(library: str, name: str, names: Iterable[str]) -> None:
    """Libraries have hundreds of names: the nearest are said."""
    names = list(names)
    if name not in names:
        raise InputError(
            f"{library} has no model {name!r}", f"one of its {len(names)} models of pictures", _near(name, names)
        )


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=_SUGGESTED, cutoff=0.5)
    return f"Near: {', '.join(near)}" if near else ""
