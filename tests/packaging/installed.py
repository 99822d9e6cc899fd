"""``make test-wheel``: the wheel in an empty virtual environment, used as a newcomer would, far from any checkout.

Needs a package registry, which is why ``make test`` leaves it out. Nothing but the wheel and its ordinary dependencies
is installed; verbs that need an extra must say so in one sentence.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.packaging.building import CHECKOUT, build_wheel

SCRIPT = """
for step in range(1, 4):
    print(f"penstock: step={step} total=3", flush=True)
print("trained")
"""
PATIENCE_S = 300.0


class Newcomer:
    """A person with an empty environment and an empty home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "venv" / "bin"
        self.environment = {
            "HOME": str(home),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PENSTOCK_DATA_DIR": str(home / "data"),
            "COLUMNS": "200",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()},
        }

    def runs(self, *command: str, expected: int = 0) -> str:
        """What a command says on both streams; it must end as expected."""
        done = subprocess.run(
            command, cwd=self.home, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        print(f"$ {' '.join(command)}\n{done.stdout}", flush=True)
        if done.returncode != expected or "Traceback" in done.stdout:
            raise SystemExit(f"{command}: ended with {done.returncode}, not {expected}")
        return done.stdout

    def waits_for(self, job: str, state: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while state not in self.runs("penstock", "show", job):
            if time.monotonic() > deadline:
                raise SystemExit(f"{job} is not {state} after {PATIENCE_S:.0f} s")
            time.sleep(1)


def expect(text: str, said: str) -> None:
    if text not in said:
        raise SystemExit(f"{text!r} was not said")


def install(person: Newcomer) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(person.home / "venv")], check=True)
    wheel = build_wheel(person.home)
    person.runs(str(person.bin / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel))
    where = person.runs(str(person.bin / "python"), "-c", "import sys, penstock; print(penstock.__file__, sys.path)")
    expect(str(person.home / "venv"), where)
    if str(CHECKOUT) in where:
        raise SystemExit("the checkout is on the path")


def use(person: Newcomer) -> None:
    (person.home / "train.py").write_text(SCRIPT)
    expect("trained", person.runs("penstock", "run", "--best-effort", "--work", "3 steps", "--", "train.py"))
    said = person.runs("penstock", "submit", "--best-effort", "--work", "3 steps", "--", "train.py")
    job = next(word for word in said.split() if word.startswith("j-"))
    person.waits_for(job, "finished")
    expect(job, person.runs("penstock", "ps", "-a"))
    person.runs("penstock", "trace", "generate", "--jobs", "150", "--out", "trace.csv")
    expect("elasticflow", person.runs("penstock", "simulate", "trace.csv"))
    person.runs("penstock", "plan", "gpt-1.3b", "--cluster", "8xA100-80GB", "--seconds", "3", "--batch", "64")
    expect("-py3-none-any.whl[runtime]'", person.runs("penstock", "predict", "resnet50", expected=2))
    expect("-py3-none-any.whl[web]'", person.runs("penstock", "dashboard", expected=2))


def stop(person: Newcomer) -> None:
    code = (
        "import os; from penstock.client import DataDir, default_data_dir as d; os.kill(DataDir(d()).address().pid, 15)"
    )
    person.runs(str(person.bin / "python"), "-c", code)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        person = Newcomer(Path(folder))
        install(person)
        try:
            use(person)
        finally:
            stop(person)
    print("the wheel works on its own")


if __name__ == "__main__":
    main()
