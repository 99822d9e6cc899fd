"""Runs the GPU checks without a test framework: ``PYTHONPATH=src python -m tests.gpu.run [NAME …]``.

Needs Python, PyTorch and numpy, nothing else and no installation. The exit code is the number of failed checks.
"""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from tests.gpu.checks import CHECKS
from tests.runtime.agent import Zygote


def main() -> int:
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was checked")
        return 0
    wanted = sys.argv[1:] or [check.__name__ for check in CHECKS]
    unknown = set(wanted) - {check.__name__ for check in CHECKS}
    if unknown:
        print(f"no check is called {', '.join(sorted(unknown))}; there are {', '.join(c.__name__ for c in CHECKS)}")
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, python {sys.version.split()[0]}", flush=True)
    zygote = Zygote()
    try:
        failed = [check for check in CHECKS if check.__name__ in wanted and not _passes(check, zygote)]
    finally:
        zygote.close()
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed")
    return len(failed)


def _passes(check: Callable[[Zygote, Path], None], zygote: Zygote) -> bool:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            check(zygote, Path(folder))
        except BaseException as error:
            traceback.print_exc()
            print(f"FAILED {check.__name__}", flush=True)
            if isinstance(error, KeyboardInterrupt):
                raise
            return False
    print(f"passed {check.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
