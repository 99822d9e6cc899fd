"""A command in an environment that is made ready where its worker runs, by the first worker that needs it.

``python -m penstock.backends.environments.cached_command CACHE WANTED COMMAND…`` builds or finds the environment below
the directory CACHE, runs its setup commands once, and becomes the command. A cache that all machines of a cluster see
serves all of them; without one every machine makes its own ready. Which environment it is depends on the interpreter
that builds it, so every image has its own; workers that start at the same time wait for the one that builds. What pip
and the setup commands say is the worker's output.
"""

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from penstock.backends.environments.environment_process import EnvironmentRequest, built_environment
from penstock.core import INTERPRETER, PenstockError, Recipe, build

_MODULE = "penstock.backends.environments.cached_command"
_OWN_CACHE = "penstock-environments"
PREPARED = frozenset({"requirements", "conda", "setup"})
"""What can be made ready like this, by the names that a job file has for it."""


def cached_commands(recipe: Recipe, python: str, cache: str = "") -> Recipe:
    """The recipe with its commands to be started by ``python`` in an environment that is kept in ``cache``.

    Variables and secrets of the job are around it there already, and so they are in no word of the command.
    """
    asked = {
        "requirements": recipe.requirements, "requirements_file": recipe.requirements_file, "conda": recipe.conda,
        "setup": recipe.setup,
    }  # fmt: skip
    wanted = json.dumps({name: value for name, value in asked.items() if value})
    before = (python, "-P", "-m", _MODULE, cache, wanted)
    without_device = (*before, *recipe.cpu_command) if recipe.cpu_command else ()
    return replace(recipe, command=(*before, *recipe.command), cpu_command=without_device)


def main(arguments: list[str]) -> int:
    """Does not return if all goes well; relative paths of requirements start where the command does."""
    cache, wanted, *command = arguments
    place = Path(cache) if cache else Path(tempfile.gettempdir()) / _OWN_CACHE
    request: EnvironmentRequest = build(EnvironmentRequest, {"base": str(Path.cwd()), **json.loads(wanted)})
    try:
        environment = built_environment(request, place)
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
