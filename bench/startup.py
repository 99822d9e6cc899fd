"""How long commands take to start: wall and processor seconds, the best of several runs, and what each one loads.

``python -m bench.startup``. Wall seconds mean something on a quiet machine only; processor seconds nearly everywhere.
Bytecode is kept, as it is for everybody who installs the package. ``ps`` talks to a server that this benchmark starts
in a folder of its own and stops again.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.client import DataDir, ensure_server
from penstock.simulate import Profiles, generate, write_trace

RUNS = 5
TARGET_S = 0.5
_CLI = "from penstock.cli import main; main()"


def cost(words: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of one run of the command line."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", _CLI, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"penstock {' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        trace = home / "trace.csv"
        write_trace(trace, generate(20, seed=1, profiles=Profiles.builtin(), mean_interval_s=600))
        ensure_server(home / "data").close()
        environment = {**os.environ, "PENSTOCK_DATA_DIR": str(home / "data")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            _table([["--help"], ["simulate", "--help"], ["ps"], ["simulate", str(trace), "--policy", "deadline,fifo"]],
                   environment)  # fmt: skip
        finally:
            address = DataDir(home / "data").address()
            if address is not None:
                os.kill(address.pid, signal.SIGTERM)


def _table(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> None:
    print(f"best of {RUNS} runs; target {TARGET_S:g} s on a quiet machine (load now {os.getloadavg()[0]:.1f})")
    print(f"{'command':32} {'wall s':>7} {'CPU s':>7}")
    for words in commands:
        costs = [cost(words, environment) for _ in range(RUNS)]
        shown = " ".join(Path(word).name if "/" in word else word for word in words)[:32]
        print(f"{shown:32} {min(wall for wall, _ in costs):7.2f} {min(cpu for _, cpu in costs):7.2f}")


if __name__ == "__main__":
    main()
