"""How fast the doctor reads, in how much memory, beside a loop that tries every regex on every line.

``python -m bench.doctor --megabytes 400``: a log of training as they are (metrics, progress bars, library chatter) with
a failure at its end, written to a temporary file. Each reader runs in a process of its own, so that its peak memory is
its own. The plain loop reads a tenth of a megabyte, for it would take minutes.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LINES = (
    "[2026-03-01 12:00:{s:02d},123] [INFO] [rank{r}]: iteration {i:8d}/ 500000 | consumed samples: {i} | elapsed time "
    "per iteration (ms): 612.3 | learning rate: 1.5E-04 | lm loss: 2.3456E+00 | loss scale: 1.0 | grad norm: 0.345 |\n",
    "node{r}:2152176:2152299 [{r}] NCCL INFO Channel 0{r}/04 : {r}[0] -> 1[1] [send] via NET/IB/0/GDRDMA\n",
    "Epoch 3:  45%|████▌     | {i}/12000 [01:02<01:15, 45.{s}it/s, loss=2.1, v_num=3]\r",
    "[rank{r}]: step {i} throughput 12345 tokens/s, memory 61.2 of 79.1 GiB, data time 0.01 s, validation error 0.1\n",
    "/usr/lib/python3/site-packages/torch/nn/functional.py:1234: UserWarning: this is deprecated, use another\n",
)
_END = "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def write_log(path: Path, megabytes: float) -> None:
    block = "".join(
        _LINES[number % len(_LINES)].format(i=number, s=number % 60, r=number % 8) for number in range(500)
    ).encode()
    with path.open("wb") as file:
        written = 0
        while written < megabytes * 2**20:
            written += file.write(block)
        file.write(_END.encode())


def read_as_doctor(path: str) -> str:
    from penstock.diagnose import Doctor, log_sources

    return Doctor.shipped().diagnose(log_sources([path])).category


def read_plainly(path: str) -> str:
    """The first line that any regex finds, every regex tried on every line."""
    from penstock.diagnose import shipped_catalogue

    signatures = [
        (re.compile(one.regex, re.IGNORECASE), one.category) for one in shipped_catalogue().signatures.values()
    ]
    found = "unknown"
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            found = next((category for pattern, category in signatures if pattern.search(line)), found)
    return found


_READERS = {"doctor": read_as_doctor, "every regex on every line": read_plainly}


def measured(reader: str, path: Path) -> dict[str, float | str]:
    """A reader in a process of its own: what it found, in how long, with what peak memory."""
    command = [sys.executable, "-m", "bench.doctor", "--reader", reader, "--path", str(path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float | str] = json.loads(told)
    return result | {"megabytes": path.stat().st_size / 2**20}


def be_reader(reader: str, path: str) -> None:
    import resource

    began, cpu = time.perf_counter(), time.process_time()
    category = _READERS[reader](path)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"category": category, "seconds": took, "cpu_s": used, "peak_mb": peak}))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=200)
    arguments.add_argument("--plain-megabytes", type=float, default=0.1)
    arguments.add_argument("--reader", help=argparse.SUPPRESS)
    arguments.add_argument("--path", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.reader:
        be_reader(given.reader, given.path)
        return
    print(f"{'reader':28} {'MB':>6} {'s':>8} {'MB/s of a core':>15} {'peak MB':>8}  found")
    with tempfile.TemporaryDirectory() as folder:
        for reader, megabytes in zip(_READERS, (given.megabytes, given.plain_megabytes), strict=True):
            path = Path(folder) / f"{megabytes}.log"
            write_log(path, megabytes)
            seen = measured(reader, path)
            speed = float(seen["megabytes"]) / float(seen["cpu_s"])
            print(
                f"{reader:28} {float(seen['megabytes']):6.0f} {float(seen['seconds']):8.2f} {speed:15.1f} "
                f"{float(seen['peak_mb']):8.1f}  {seen['category']}"
            )


if __name__ == "__main__":
    main()
