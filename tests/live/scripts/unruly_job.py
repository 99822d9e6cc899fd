"""A job that says what cannot be, in its output and in its progress file, and then trains as if nothing had been."""

import os
from pathlib import Path

progress = Path(os.environ["PENSTOCK_PROGRESS"])
for line in (
    f"penstock: step={'9' * 400} total=1",
    "penstock: step=abc total=nan loss=inf",
    "penstock: step=-5 total=0",
    "penstock: checkpointed step=abc path=/dev/null",
    f"penstock: step={10**30}",
    "\x1b]0;owned\x07\x1b[2J",
):
    print(line, flush=True)
for text in ("{", '{"step": 1e308, "total": -1}', "[1, 2", "\0\0\0", '{"step": "' + "9" * 5000 + '"}'):
    progress.write_text(text)
for step in range(1, 6):
    print(f"penstock: step={step} total=5", flush=True)
