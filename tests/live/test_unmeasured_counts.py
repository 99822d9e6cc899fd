"""A plain script with a fixed batch per device, measured on one device and submitted on two: no promise on a guess."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.wire.views import JobDetail
from tests.live.site import OVER, Site, until

_PLAIN = """
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--sleep", type=float)
given = parser.parse_args()
for step in range(1, given.steps + 1):
    time.sleep(given.sleep)
    if os.environ["RANK"] == "0":
        print(f"penstock: step={step} total={given.steps}", flush=True)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, slots=4)
    (tmp_path / "plain.py").write_text(_PLAIN)
    found.start()
    yield found
    found.close()


def penstock(site: Site, command: str) -> str:
    """What a command line prints."""
    program = [sys.executable, "-c", "from penstock.cli import main; main()", *shlex.split(command)]
    environ = {**os.environ, "PENSTOCK_DATA_DIR": str(site.data)}
    done = subprocess.run(program, cwd=site.folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def job(site: Site, name: str) -> JobDetail:
    return site.ask(lambda client: client.job(name))


def test_a_deadline_is_not_promised_on_a_number_of_devices_that_was_never_measured(site: Site) -> None:
    penstock(site, 'run --work "40 steps" --devices 1 -- plain.py --steps 40 --sleep 0.5')
    said = penstock(
        site, 'submit --work "120 steps" --devices 2 --deadline 55s --name w2 -- plain.py --steps 120 --sleep 0.5'
    )
    assert "deferred: its speed on 2 devices, the fewest it takes, was never measured" in said
    assert "promised" not in said
    until(lambda: job(site, "w2").state in OVER, "the answer to w2")
    assert job(site, "w2").state == "declined", "120 steps take 60 s on two devices as on one"
    told = [entry.text for entry in site.ask(lambda client: client.why("w2")).entries]
    assert not [text for text in told if text.startswith("promised")], told

    said = penstock(
        site, 'submit --work "20 steps" --devices 2 --deadline 60s --name w3 -- plain.py --steps 20 --sleep 0.5'
    )
    assert "promised: planned to finish" in said, "measured on two devices by another job of the script"
    assert "never measured" not in said
    until(lambda: job(site, "w3").state in OVER, "the end of w3")
    ended = job(site, "w3")
    assert ended.state == "finished"
    assert ended.quote is not None
    assert ended.quote.deadline is not None
    assert ended.ended_at is not None
    assert ended.ended_at <= ended.quote.deadline
