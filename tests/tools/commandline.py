"""The command line in this process: the real verbs without a second's worth of imports for each of them.

What only a process of its own can show (signals, exit at the end of an interpreter, what is loaded) is tested with one.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.cli.terminal import console

COLUMNS = 160


def penstock(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Type ``penstock`` and some words in a folder; ``env`` are all settings of Penstock, where it is given."""
    arguments = ["penstock", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with _surroundings(arguments, cwd, env), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _exit_code()
    return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


@contextlib.contextmanager
def _surroundings(arguments: list[str], cwd: Path | None, env: Mapping[str, str] | None) -> Iterator[None]:
    """As in a fresh process: its words, folder and variables; what was imported from the folder is forgotten."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        patch.setattr(sys, "path", [str(cwd or Path.cwd()), *sys.path])
        patch.setattr(console.out, "width", COLUMNS)
        if env is not None:
            for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
                patch.delenv(name)
            for name, value in env.items():
                patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            yield
        finally:
            for name in set(sys.modules) - before:
                if _is_in(getattr(sys.modules[name], "__file__", None), cwd):
                    del sys.modules[name]


def _is_in(file: str | None, folder: Path | None) -> bool:
    return file is not None and folder is not None and Path(file).is_relative_to(folder)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
