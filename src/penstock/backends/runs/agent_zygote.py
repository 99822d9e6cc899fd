"""A warm process that forks agents, so that only one pays for starting Python and importing what an agent needs.

``python -m penstock.backends.runs.agent_zygote ROOT MODULE…`` imports these modules as well, where they are installed,
reads one request a line from its standard input and answers each with one line. It ends with its input, and agents do
not notice: each is detached, below a subreaper of its own. It has one thread, and nothing happens in it but forking.
"""

import gc
import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from penstock.backends.runs.agent.program import main as run_agent


def main() -> int:
    """Serve until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for module in sys.argv[2:]:
        with suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        if (code := _serve(json.loads(line))) is not None:
            return code
    return 0


def _serve(request: dict[str, Any]) -> int | None:
    """Fork; in the child, the exit code of what it became."""
    try:
        pid = os.fork()
    except OSError as error:
        _answer({"errno": error.errno})
        return None
    if pid:
        _answer({"pid": pid})
        return None
    return _become_agent(request)


def _become_agent(request: dict[str, Any]) -> int:
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    os.chdir(request["cwd"])
    os.setsid()
    return run_agent([*request["arguments"], "--kept"], request["secrets"])


def _answer(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
