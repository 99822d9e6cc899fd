"""A command in a Python environment that is built where all machines of a cluster see it, by the first that needs it.

``python -m penstock.backends.environments.cached_command CACHE WANTED COMMAND…`` builds or finds the environment below
the directory CACHE and becomes the command. Which one it is depends on the interpreter that builds it, so every image
has its own; workers that start at the same time wait for the one that builds. What pip says is the worker's output.
"""

import json
import os
import sys
from pathlib import Path

from penstock.backends.environments.python_environments import EnvironmentBuilder
from penstock.core import INTERPRETER, PenstockError, Recipe

_MODULE = "penstock.backends.environments.cached_command"


def cached_command(recipe: Recipe, python: str, cache: str) -> tuple[str, ...]:
    """The recipe's command, to be started by ``python`` where its requirements are installed once in ``cache``."""
    wanted = json.dumps({"requirements": recipe.requirements_file or list(recipe.requirements)})
    return (python, "-P", "-m", _MODULE, cache, wanted, *recipe.command)


def main(arguments: list[str]) -> int:
    """Does not return if all goes well; relative paths of requirements start where the command does."""
    cache, wanted, *command = arguments
    try:
        environment = EnvironmentBuilder(Path(cache)).build(json.loads(wanted)["requirements"], base=Path.cwd())
    except PenstockError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    words = [environment.python if word == INTERPRETER else word for word in command[:1]] + command[1:]
    around = {**os.environ, **environment.variables(os.environ)}
    try:
        os.execvpe(words[0], words, around)
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
