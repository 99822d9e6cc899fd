"""The pretraining recipe as a job with a deadline: paused, resumed on more workers, and still one training."""

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.site import OVER, Site, until
from tests.tools.commandline import penstock

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "pretrain.py"
STEPS = 150
WORDS = [
    *("--data", "corpus", "--size", "tiny", "--sequence", "64", "--batch", "4", "--warmup", "5"),
    *("--log-every", "1", "--precision", "fp32", "--metrics", "csv"),
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=2)
    yield found
    found.close()


def losses(out: Path) -> dict[int, float]:
    if not (out / "metrics.csv").exists():
        return {}
    with (out / "metrics.csv").open() as file:
        return {int(row["step"]): float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "loss"}


def test_a_job_with_a_deadline_is_paused_and_goes_on_wider_with_the_curve_of_an_undisturbed_run(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{number} and {number + 1} are neighbours. " for number in range(2000)))
    packed = penstock("data", "pack", "text.txt", "--out", "corpus", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    args = ", ".join([*WORDS, "--out", "paused", "--steps", '"{steps}"'])
    (tmp_path / "job.yaml").write_text(
        f"name: pretrain\nscript: {SCRIPT}\nargs: [{args}]\nwork: {STEPS} steps\nglobal_batch: 4\ndevices: 1\n"
        "deadline: 1h\nenvironment: {env: {OMP_NUM_THREADS: 1}}\n"
    )
    site.start()
    submitted = penstock("submit", "job.yaml", cwd=tmp_path, env={"PENSTOCK_DATA_DIR": str(site.data)})
    assert submitted.returncode == 0, submitted.stderr
    (job,) = site.states()
    until(lambda: len(losses(tmp_path / "paused")) >= 3, "the first steps")
    site.ask(lambda client: client.pause(job))
    until(lambda: not site.workers(), "the job to leave its device")
    done = len(losses(tmp_path / "paused"))
    assert done < STEPS
    site.ask(lambda client: client.edit(job, devices=2))
    site.ask(lambda client: client.resume(job, deadline="1h"))
    until(lambda: site.states()[job] in OVER, "its end")
    told = site.ask(lambda client: client.job(job))
    assert told.state == "finished", site.ask(lambda client: client.why(job)).entries
    stalls = site.ask(lambda client: client.metrics(job, "input_stall"))["input_stall"]
    assert stalls.steps[-1] == STEPS

    alone = [sys.executable, str(SCRIPT), *WORDS, "--out", "alone", "--steps", str(STEPS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(alone, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert losses(tmp_path / "paused") == pytest.approx(losses(tmp_path / "alone"), rel=1e-3)
