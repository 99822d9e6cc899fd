"""Commands as they work in the shell at hand, be its virtual environment activated or not."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def as_typed(command: str) -> str:
    """Return a command line whose program lies beside this Python, such that it can be pasted into this shell."""
    program, _, rest = command.partition(" ")
    own = Path(sys.executable).parent / program
    found = shutil.which(program)
    if not own.exists() or (found is not None and Path(found).absolute() == own.absolute()):
        return command
    place = min(os.path.relpath(own), str(own), key=len)
    return f"{shlex.quote(place if os.sep in place else f'./{place}')} {rest}".rstrip()
