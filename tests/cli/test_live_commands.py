"""The live verbs as a person meets them: a server that starts by itself, real processes, real output."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.tools import commandline, needs

SCRIPT = """
import sys, time
steps, pause, code = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
for step in range(1, steps + 1):
    time.sleep(pause)
    print(f"penstock: step={step} total={steps} loss={1 / step:.3f}", flush=True)
print("the end")
sys.exit(code)
"""

GATED = """
import time
from pathlib import Path
while not Path("gate").exists():
    time.sleep(0.05)
print("penstock: step=9 total=9", flush=True)
"""


AFTERWARDS = """
import sys
import torch
import penstock.elastic as elastic
run = elastic.init()
model = run.wrap(torch.nn.Linear(2, 1))
for step in run.steps((torch.ones(8, 2), torch.ones(8, 1)), global_batch=4, epochs=3):
    with step:
        for given, wanted in step.parts():
            step.backward((model(given) - wanted).square().mean())
print("could not write the final model", flush=True)
sys.exit(7)
"""


class Terminal:
    """One person at one machine, with a data directory of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        (home / "train.py").write_text(SCRIPT)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"PENSTOCK_DATA_DIR": str(self.data), "PENSTOCK_ACCEPT_SHARED_USER": "yes"}
        return commandline.penstock(*arguments, cwd=self.home, env=env)

    def json(self, *arguments: str) -> dict[str, object]:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def answered(self, job: str, within_s: float = 300.0) -> None:
        """Until a question that was put off has its answer."""
        deadline = time.monotonic() + within_s
        while "promised" not in json.dumps(self.json("show", job)["quote"]):  # type: ignore[index, call-overload]
            assert time.monotonic() < deadline, self("why", job).stdout
            time.sleep(0.2)

    def wait(self, job: str, *states: str, within_s: float = 300.0) -> dict[str, object]:
        deadline = time.monotonic() + within_s
        while (detail := self.json("show", job))["state"] not in states:
            assert time.monotonic() < deadline, detail
            time.sleep(0.2)
        return detail

    def stop(self) -> None:
        from penstock.client import DataDir

        address = DataDir(self.data).address()
        if address is not None:
            os.kill(address.pid, signal.SIGTERM)


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    first = terminal("nodes", "--json")
    assert first.returncode == 0, first.stderr
    assert "starting a Penstock server" in first.stderr
    yield terminal
    terminal.stop()


def test_run_follows_and_ends_with_the_code_of_the_job(penstock: Terminal) -> None:
    good = penstock("run", "--best-effort", "--work", "5 steps", "--", "train.py", "5", "0.05", "0")
    assert good.returncode == 0, good.stderr
    assert "the end" in good.stdout
    bad = penstock(
        "run", "--best-effort", "--work", "2 steps", "--set", "retries=0", "--", "train.py", "2", "0.05", "7"
    )
    assert bad.returncode == 7, bad.stderr
    assert "failed" in bad.stderr


@needs.with_torch
@pytest.mark.parametrize("devices", ["1", "2"])
def test_what_fails_after_the_last_step_has_failed(penstock: Terminal, devices: str) -> None:
    (penstock.home / "afterwards.py").write_text(AFTERWARDS)
    done = penstock(
        "run", "--best-effort", "--work", "6 steps", "--devices", devices, "--set", "retries=0", "--", "afterwards.py"
    )
    assert done.returncode == 7, done.stderr
    assert "could not write the final model" in done.stdout
    assert "failed" in done.stderr


@needs.with_torch
def test_metrics_of_plain_and_elastic_scripts(penstock: Terminal) -> None:
    (penstock.home / "plain.py").write_text(
        "for step in range(1, 31): print(f'penstock: step={step} total=30 loss={1 / step} val_acc={step / 30}')"
    )
    (penstock.home / "measuring.py").write_text(
        AFTERWARDS.replace(
            "    with step:", "    elastic.log(val_acc=torch.tensor(0.5 + step.number / 100))\n    with step:"
        ).replace("sys.exit(7)", "elastic.log({'final/score': float('nan')})")
    )
    options = ("--best-effort", "--work", "30 steps", "--devices", "1", "--name")
    scripts = {"plain-metrics": "plain.py", "elastic-metrics": "measuring.py"}
    for name, script in scripts.items():
        assert penstock("submit", *options, name, "--", script).returncode == 0
    assert penstock("wait", *scripts).returncode == 0
    shown = penstock("metrics", "plain-metrics", "--metric", "val_acc")
    assert "val_acc" in shown.stdout, shown.stderr
    assert "▁" in shown.stdout
    both = penstock("metrics", "plain-metrics", "elastic-metrics", "--json")
    plain, elastic = json.loads(both.stdout)
    values = {metric["name"]: metric["values"] for metric in plain["metrics"]}
    assert values == {"loss": [1 / step for step in range(1, 31)], "val_acc": [step / 30 for step in range(1, 31)]}
    logged = {metric["name"]: (metric["steps"], metric["values"]) for metric in elastic["metrics"]}
    assert {"loss", "samples_per_s"} < logged.keys()
    assert logged["val_acc"][0] == [0, 1, 2, 3, 4, 5]
    assert logged["final/score"] == ([6], ["nan"])
    table = penstock("metrics", "plain-metrics", "elastic-metrics", "--csv").stdout.splitlines()
    assert table[0] == "job,metric,step,time,value,low,high"
    assert len(table) > 60
    exported = penstock("metrics", "plain-metrics", "--export", "mlflow", "--out", "mlruns")
    assert Path(penstock.home, exported.stdout.strip(), "metrics", "val_acc").exists(), exported.stderr
    unknown = penstock("metrics", "plain-metrics", "--metric", "vall_acc")
    assert unknown.returncode == 2
    assert "no job here has a metric 'vall_acc'" in " ".join(unknown.stderr.split())


def test_a_script_that_cannot_begin_fails_at_once_and_says_why(penstock: Terminal) -> None:
    (penstock.home / "broken.py").write_text("import notamodule\n")
    done = penstock("run", "--work", "1", "--devices", "1", "--", "broken.py")
    assert done.returncode == 1
    assert done.stdout.count("Traceback") == 1
    assert "failed: ModuleNotFoundError: No module named 'notamodule' (its script ended by itself with code 1)" in (
        " ".join(done.stderr.split())
    )


@needs.with_torch
def test_the_job_file_says_how_often_state_is_saved(penstock: Terminal) -> None:
    (penstock.home / "saving.py").write_text(
        AFTERWARDS.replace("    with step:", "    with step:\n        pause()")
        .replace("import sys", "import sys, time\ndef pause(): time.sleep(0.3)")
        .replace("epochs=3", "epochs=40")
        .replace("sys.exit(7)", "")
    )
    job = penstock(
        "submit", "--work", "80 steps", "--devices", "1", "--set", "checkpoint.every=1s", "--", "saving.py"
    ).stdout.strip()
    deadline = time.monotonic() + 300
    while not (penstock.json("show", job)["progress"] or {}).get("saved_step"):  # type: ignore[union-attr, attr-defined]
        assert time.monotonic() < deadline, penstock("why", job).stdout
        time.sleep(0.2)
    penstock("cancel", job)


def test_the_life_of_a_job_seen_from_the_shell(penstock: Terminal) -> None:
    submitted = penstock(
        "submit", "--name", "life", "--deadline", "1h", "--work", "4000 steps", "--", "train.py", "4000", "0.1", "0"
    )
    job = submitted.stdout.strip()
    assert submitted.returncode == 0, submitted.stderr
    assert "deferred: its speed was never measured" in submitted.stderr
    detail = penstock.wait(job, "running")
    assert detail["name"] == "life"
    assert job in penstock("ps").stdout
    assert penstock("ps", "-q").stdout.split() == [job]
    penstock.answered(job)
    assert "before its deadline" in penstock("why", job).stdout
    assert penstock("cancel", job).returncode == 0
    penstock.wait(job, "cancelled")
    assert job not in penstock("ps", "-q").stdout
    kinds = [event["kind"] for event in penstock.json("events", job)["events"]]  # type: ignore[index, union-attr]
    assert kinds[0] == "Submitted"
    assert "Cancelled" in kinds


def test_a_paused_job_waits_until_it_is_resumed(penstock: Terminal) -> None:
    job = penstock(
        "submit", "--best-effort", "--work", "4000 steps", "--", "train.py", "4000", "0.1", "0"
    ).stdout.strip()
    penstock.wait(job, "running")
    refused = penstock("pause", job)
    assert refused.returncode == 2
    assert "of work would be lost" in refused.stderr
    assert "--anyway" in refused.stderr
    assert "has told of no checkpoint to wait for" in penstock("pause", job, "--at-checkpoint").stderr
    assert "Allowed: one of them" in penstock("pause", job, "--at-checkpoint", "--anyway").stderr
    assert penstock.json("show", job)["state"] == "running"  # type: ignore[call-overload, index]
    assert penstock("pause", job, "--anyway").returncode == 0
    penstock.wait(job, "paused")
    assert penstock("resume", job).returncode == 0
    penstock.wait(job, "running")
    penstock("cancel", job)


def test_a_quote_changes_nothing_and_a_refusal_comes_with_an_offer(penstock: Terminal) -> None:
    before = penstock.json("ps", "-a")
    arguments = (
        "--profile",
        "never",
        "--deadline",
        "10s",
        "--work",
        "1_000_000 steps",
        "--",
        "train.py",
        "1000000",
        "1",
        "0",
    )
    refused = penstock("quote", *arguments)
    assert refused.returncode == 3, refused.stderr
    assert refused.stdout.startswith("refused")
    assert "earliest deadline that can be promised" in refused.stdout
    assert "a quote holds no devices: submit the job" in refused.stdout
    assert penstock.json("ps", "-a") == before


def test_the_offer_that_a_rejected_submission_prints_is_promised_when_it_is_accepted(penstock: Terminal) -> None:
    """The resubmission copies the deadline that was printed; a quote that came in between holds nothing."""
    asked = ("--profile", "never", "--work", "1_000_000 steps", "--", "train.py", "1000000", "1", "0")
    refused = penstock("submit", "--deadline", "10s", *asked)
    assert refused.returncode == 3, refused.stderr
    assert "this offer is held until " in refused.stderr
    offered = next(line.split()[1] for line in refused.stderr.splitlines() if line.strip().startswith("--deadline "))
    shown = penstock.json("show", refused.stdout.strip())["quote"]
    assert isinstance(shown, dict)
    assert shown["offer_until"] is not None
    accepted = penstock("submit", "--deadline", offered, *asked)
    assert accepted.returncode == 0, accepted.stderr
    assert "promised: " in accepted.stderr
    penstock("cancel", accepted.stdout.strip())


def test_dry_run_shows_what_would_run_and_submits_nothing(penstock: Terminal) -> None:
    before = penstock.json("ps", "-a")
    shown = penstock("submit", "--dry-run", "--work", "5 steps", "--best-effort", "--", "train.py", "5", "0", "0")
    assert shown.returncode == 0, shown.stderr
    assert "train.py" in shown.stdout
    assert "# would run:" in shown.stdout
    assert penstock.json("ps", "-a") == before


def test_logs_of_a_job_that_is_over(penstock: Terminal) -> None:
    job = penstock("submit", "--best-effort", "--work", "3 steps", "--", "train.py", "3", "0.05", "0").stdout.strip()
    penstock.wait(job, "finished")
    whole = penstock("logs", job).stdout
    assert "the end" in whole
    end = "".join(whole.splitlines(keepends=True)[-2:])
    assert penstock("logs", job, "--tail", "2").stdout == penstock("logs", job, "-n", "2", "--follow").stdout == end
    assert penstock("logs", job, "-n", "0").stdout == ""
    assert penstock("logs", job, "-n", "100000").stdout == whole
    assert penstock("logs", job, "--since", "10m", "--worker", "w0", "-n", "1").stdout == "the end\n"
    assert penstock("logs", job, "--since", "2099-01-01T00:00", "--follow").stdout == ""
    assert "neither a duration nor a date" in penstock("logs", job, "--since", "lately").stderr


def test_events_are_followed_until_ctrl_c(penstock: Terminal) -> None:
    job = penstock("submit", "--best-effort", "--work", "1 steps", "--", "train.py", "1", "0", "0").stdout.strip()
    command = [sys.executable, "-m", "penstock.cli", "events", job, "--follow", "--after", "1", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PENSTOCK_DATA_DIR": str(penstock.data)}, text=True
    ) as process:
        assert process.stdout is not None
        kinds = [json.loads(process.stdout.readline())["kind"]]
        while kinds[-1] != "RunFinished":
            kinds.append(json.loads(process.stdout.readline())["kind"])
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert kinds[0] == "Submitted"


def test_a_draining_node_takes_no_jobs(penstock: Terminal) -> None:
    def state() -> str:
        return str(json.loads(penstock("nodes", "--json").stdout)[0]["state"])

    node = json.loads(penstock("nodes", "--json").stdout)[0]["name"]
    job = penstock("submit", "--best-effort", "--work", "9 steps", "--", "train.py", "4000", "0.1", "0").stdout.strip()
    penstock.wait(job, "running")
    told = penstock("nodes", "drain", node, "--reason", "new fan").stderr
    assert f"({job}) cannot resume: it ends there first (stopped now it would lose " in told
    assert state() == "draining"
    assert penstock.json("show", job)["state"] == "running"  # type: ignore[call-overload, index]
    assert f"node {node} was drained by owner (new fan); it cannot resume" in penstock("why", job).stdout
    waiting = penstock("submit", "--best-effort", "--work", "9 steps", "--", "train.py", "9", "0.1", "0").stdout.strip()
    penstock.wait(waiting, "pending")
    assert f"its only node: {node} is draining (new fan)" in " ".join(penstock("why", waiting).stdout.split())
    told = penstock("nodes", "drain", node, "--now").stderr
    assert f"({job}) cannot resume: it loses " in told
    assert state() == "drained"
    why = " ".join(penstock("why", job).stdout.split())
    assert f"node {node} was drained by owner; it begins again" in why
    assert "was lost" not in why
    penstock("cancel", job, waiting)
    assert penstock("nodes", "undrain", node).returncode == 0
    assert json.loads(penstock("nodes", "--json").stdout)[0]["state"] == "up"


def test_tokens_are_made_listed_and_revoked(penstock: Terminal) -> None:
    made = penstock("token", "create", "ada", "--tenant", "physics")
    assert made.returncode == 0, made.stderr
    listed = json.loads(penstock("token", "list", "--json").stdout)
    ada = next(token for token in listed if token["name"] == "ada")
    assert (ada["tenant"], ada["secret"]) == ("physics", None)
    assert penstock("token", "revoke", ada["id"]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show", "j-nobody"), "no job 'j-nobody'"),
        (("submit", "nowhere.yaml"), "nowhere.yaml"),
        (("submit", "--work", "5 parsecs", "--", "train.py"), "parsecs"),
        (("submit", "--set", "dedline=5h", "--work", "5 steps", "--", "train.py"), "deadline"),
        (("nodes", "drain", "nowhere"), "nowhere"),
        (("serve", "--policy", "deadlin"), "Did you mean 'deadline'"),
    ],
)
def test_bad_input_is_explained(penstock: Terminal, arguments: tuple[str, ...], expected: str) -> None:
    done = penstock(*arguments)
    assert done.returncode == 2, done.stdout
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_the_server_may_die_and_the_job_goes_on(penstock: Terminal) -> None:
    from penstock.client import DataDir

    (penstock.home / "gated.py").write_text(GATED)
    job = penstock("submit", "--best-effort", "--work", "9 steps", "--", "gated.py").stdout.strip()
    run = penstock.wait(job, "running")["run_id"]
    looked = penstock("exec", job, "--", "sh", "-c", "echo $PENSTOCK_JOB_ID in $PWD; exit 5")
    assert (looked.returncode, looked.stdout) == (5, f"{job} in {penstock.home}\n"), looked.stderr
    address = DataDir(penstock.data).address()
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    (penstock.home / "gate").touch()
    ended = penstock.wait(job, "finished", "failed")
    assert (ended["state"], ended["run_id"], ended["failures"]) == ("finished", run, 0)


def test_a_shell_is_a_job_that_ends_with_it(penstock: Terminal) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "shell", "--for", "10m", "--name", "trying", "--", "sh"],
        input="echo $((6*7)) $PENSTOCK_JOB_ID\nexit 3\n", cwd=penstock.home, capture_output=True, text=True,
        env={**os.environ, "PENSTOCK_DATA_DIR": str(penstock.data)}, timeout=300, check=False,
    )  # fmt: skip
    shown = penstock.json("show", "trying")
    assert done.returncode == 3, done.stderr
    assert f"42 {shown['id']}" in done.stdout
    assert shown["state"] == "cancelled"


STAND_IN = """
import http.server, secrets
token = secrets.token_hex(8)
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.endswith("token=" + token) else 403)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print(f"    http://127.0.0.1:{server.server_port}/lab?token={token}", flush=True)
server.serve_forever()
"""


def test_a_notebook_is_reached_by_its_address_and_closed_by_ctrl_c(penstock: Terminal) -> None:
    (penstock.home / "stand_in.py").write_text(STAND_IN)
    notebook = subprocess.Popen(
        [*(sys.executable, "-m", "penstock.cli", "notebook", "--for", "10m", "--name", "book"),
         *("--", sys.executable, "stand_in.py")],
        cwd=penstock.home, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PENSTOCK_DATA_DIR": str(penstock.data)},
    )  # fmt: skip
    assert notebook.stdout is not None
    with notebook.stdout:
        address = notebook.stdout.readline().strip()
        assert urlsplit(address).hostname == "localhost", "the cookies of a dashboard at 127.0.0.1 do not come along"
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.status == 200
        assert "token" not in penstock("logs", "book").stdout
        notebook.send_signal(signal.SIGINT)
        assert notebook.wait(timeout=300) == 0
    assert penstock.json("show", "book")["state"] == "cancelled"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60).close()


def test_a_notebook_without_jupyter_says_how_to_get_it(penstock: Terminal) -> None:
    refused = penstock("notebook", "--for", "10m", "--set", "environment.env.PATH=/usr/bin:/bin")
    assert refused.returncode == 2
    assert "the environment has no Jupyter" in refused.stderr
    assert "--set 'environment.requirements=[jupyterlab]'" in refused.stderr


def test_a_session_ends_with_its_time(penstock: Terminal) -> None:
    done = penstock("notebook", "--for", "2s", "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    assert "its time is over" in done.stderr


def test_a_job_is_submitted_again_with_a_difference(penstock: Terminal) -> None:
    first = penstock(
        "submit", "--deadline", "1h", "--work", "2 steps", "--name", "twice", "--", "train.py", "2", "0", "0"
    )
    before = first.stdout.strip()
    assert penstock("wait", before, "--timeout", "300s").returncode == 0
    again = penstock("resubmit", before, "--set", "args=[3, 0, 0]")
    assert again.returncode == 0, again.stderr
    after = again.stdout.strip()
    assert penstock("wait", after, "--timeout", "300s").returncode == 0
    shown = penstock.json("show", after)
    assert (shown["name"], shown["spec"]["args"]) == ("twice", ["3", "0", "0"])  # type: ignore[index, call-overload]
    assert after != before
    assert "step=3 total=3" in penstock("logs", after).stdout
    refused = penstock("resubmit", before, "--set", "work=nonsense")
    assert refused.returncode == 2
    assert "work" in refused.stderr


def test_a_server_is_stopped_and_the_job_goes_on(penstock: Terminal) -> None:
    gated = penstock.home / "gated.py"
    gated.write_text(GATED.replace("gate", "second-gate"))
    job = penstock("submit", "--best-effort", "--work", "9 steps", "--", str(gated)).stdout.strip()
    penstock.wait(job, "running")
    assert penstock("status").returncode == 0
    stopped = penstock("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "jobs that run go on" in stopped.stderr
    assert penstock("status").returncode == 1
    (penstock.home / "second-gate").touch()
    assert penstock("wait", job, "--timeout", "300s").returncode == 0


def test_the_same_from_python(penstock: Terminal) -> None:
    code = (
        "import penstock;"
        "arguments = ['3', '0.05', '0'];"
        "job = penstock.Job(script='train.py', args=arguments, work='3 steps', deadline='5m', profile='never');"
        "print(penstock.quote(job).verdict); print(penstock.submit(job).id)"
    )
    around = {**os.environ, "PENSTOCK_DATA_DIR": str(penstock.data)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=penstock.home, env=around, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    verdict, job = done.stdout.split()
    assert verdict == "promised"
    penstock.wait(job, "finished")


def test_config_and_completion(penstock: Terminal) -> None:
    assert str(penstock.data) in penstock("config").stdout
    assert "properties" in json.loads(penstock("config", "--schema").stdout)
    assert "_penstock_completion" in penstock("completion", "bash").stdout
