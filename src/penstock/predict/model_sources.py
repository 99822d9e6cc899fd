"""From what a person types to a model: a network of the zoo, ``timm:resnet50``, ``module:function``, or a script.

A script offers its model by a function ``penstock_model(batch)`` that returns ``model, inputs`` or
``model, inputs, loss``. The script is imported, not run: what stands under ``if __name__ == "__main__"`` stays out.
How it trains it may say beside that: ``penstock_setup = {"precision": "amp-bf16", "optimizer": "sgd"}``.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core import InputError
from penstock.predict.library_models import LIBRARIES, library_hook

HOOK = "penstock_model"
SETUP = "penstock_setup"
_LARGEST_SCRIPT = 4 << 20
_SETTINGS = ("precision", "layout", "optimizer", "recompute")


def load_hook(text: str) -> Any:
    """A function of the batch size; raises :class:`~penstock.core.InputError` that says how to offer one."""
    if text.endswith(".py"):
        return _from_script(Path(text))
    if ":" in text:
        module, _, name = text.partition(":")
        if module in LIBRARIES:
            return library_hook(module, name)
        return _function(_imported(module), name, text)
    from penstock.predict.zoo import network_named

    return network_named(text).hook


def setup_of(hook: Any) -> dict[str, Any]:
    """What the hook's script says about how it trains; nothing if it does not."""
    told = getattr(hook, "__globals__", {}).get(SETUP, {})
    if not isinstance(told, dict) or not set(told) <= set(_SETTINGS):
        raise InputError(f"{SETUP} = {told!r}", f"a dict with some of {', '.join(_SETTINGS)}")
    return dict(told)


def offers_hook(script: Path) -> bool:
    """Whether a script mentions our hook, without importing it."""
    try:
        if not script.is_file():
            return False
        with script.open("rb") as file:
            return f"def {HOOK}(" in file.read(_LARGEST_SCRIPT).decode()
    except (OSError, UnicodeDecodeError):
        return False


def _from_script(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"no file {path}", "a Python script, module:function or the name of a network")
    spec = importlib.util.spec_from_file_location(f"penstock_script_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported", "a Python script")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    argv, sys.argv = sys.argv, [str(path)]  # the words of this command are not the script's
    try:
        spec.loader.exec_module(module)
    except SystemExit as problem:
        raise InputError(
            f"{path} ends with status {problem.code} when it is imported", "a script that can be imported",
            'Put what it runs under if __name__ == "__main__"',
        ) from None  # fmt: skip
    except Exception as problem:
        raise InputError(
            f"importing {path} failed: {type(problem).__name__}: {problem}", "a script that can be imported"
        ) from problem
    finally:
        sys.argv = argv
        sys.path.remove(str(path.parent.resolve()))
    return _function(module, HOOK, str(path))


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    sys.path.append(here)  # modules of this directory too, as with `python -m`; what is installed goes first
    try:
        return importlib.import_module(name)
    except Exception as problem:
        raise InputError(
            f"module {name!r} cannot be imported: {type(problem).__name__}: {problem}", "module:function"
        ) from problem
    finally:
        sys.path.remove(here)


def _function(module: ModuleType, name: str, text: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(
            f"{text} has no function {name}", "a function of the batch size that returns model, inputs[, loss]",
            f"Write def {HOOK}(batch): return model, inputs",
        )  # fmt: skip
    return found
