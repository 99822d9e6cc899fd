"""Models by their name on the Hugging Face hub, as far as this machine has their configuration; nothing is fetched."""

import os
import re
from pathlib import Path

from penstock.core import InputError

_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def cached_config(name: str) -> Path:
    """The newest ``config.json`` of the model in the hub's cache on this machine."""
    folder = hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    found = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime) if _NAME.fullmatch(name) else []
    if not found:
        raise InputError(
            f"no configuration of {name} in {hub_cache()}", "a model that was downloaded here, or a config.json",
            f"hf download {name} config.json",
        )  # fmt: skip
    return found[-1]


def hub_cache() -> Path:
    """Where the library keeps what it downloaded: HF_HUB_CACHE, or the hub folder of HF_HOME."""
    given = os.environ.get("HF_HUB_CACHE")
    home = os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    return Path(given) if given else Path(home) / "hub"
