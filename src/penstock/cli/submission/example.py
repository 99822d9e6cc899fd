"""``penstock example``: training scripts that come with Penstock, to run and to change."""

import ast
import importlib.util
import shlex
from pathlib import Path
from typing import Annotated

import typer

import penstock
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.this_command import as_typed
from penstock.core import CPU_BUILD, InputError, UnknownNameError, install_command
from penstock.tools import write_atomically

EXAMPLES = Path(penstock.__file__).with_name("examples")
_RUN = "penstock run "


def example(
    name: Annotated[str | None, typer.Argument(help="Which one (default: list them).")] = None,
    target: Annotated[
        Path | None, typer.Option("--out", help="File or directory to write to (default: here, as NAME.py).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a training script that comes with Penstock to this directory; without a name, list them."""
    known = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))}
    if name is None:
        if target is not None or force:
            raise InputError("--out or --force without an example", ", ".join(known), "Name one: penstock example gpt")
        table = plain_table("example", "what it is")
        table.columns[1].justify, table.columns[1].no_wrap = "left", False
        for each, text in known.items():
            table.add_row(each, _docstring(text).splitlines()[0])
        out.print(table)
        out.print(f"\nWrite one to this directory: {as_typed('penstock')} example gpt", soft_wrap=True)
        return
    if name not in known:
        raise UnknownNameError.of("example", name, known)
    _write(name, known[name], target or Path(), force)


def _write(name: str, text: str, target: Path, force: bool) -> None:
    path = target / f"{name}.py" if target.is_dir() else target
    if path.suffix != ".py":
        raise InputError(f"--out {path}", "a file that ends with .py, or a directory that exists", f"Try {name}.py")
    if path.exists() and not force:
        raise InputError(f"{path} exists", "a file that does not", "Give another one with --out, or add --force")
    try:
        write_atomically(path, text)
    except OSError as problem:
        raise InputError(
            f"{path} cannot be written: {problem.strerror}", "a file in a directory of yours", "Give another --out"
        ) from None
    say(f"{path} written; run it:")
    out.print(as_typed(_run_line(text).replace(f"{name}.py", shlex.quote(str(path)))), soft_wrap=True)
    if importlib.util.find_spec("torch") is None:
        say(f"It needs PyTorch first: {install_command('runtime', as_typed('pip'))} ({CPU_BUILD}).")


def _docstring(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def _run_line(text: str) -> str:
    """The command that the script itself names."""
    return next(line.strip() for line in _docstring(text).splitlines() if line.strip().startswith(_RUN))
