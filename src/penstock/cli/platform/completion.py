"""``penstock completion``: help for the shell."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print a completion script: `penstock completion bash >> ~/.bashrc`."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="penstock", complete_var="_PENSTOCK_COMPLETE", shell=shell.value))
