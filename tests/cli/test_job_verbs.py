"""Verbs about jobs: what they print, what they change, and how they refuse."""

import http.server
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.control.platform.job_files import FilePlaces
from penstock.core import ReportKind
from penstock.wire import BOOKKEEPING, JobDetail, QuoteView, Submission
from tests.cli.conftest import Penstock
from tests.control.build import ADMIN, Platform
from tests.control.serving import Served
from tests.control.test_evaluations import evaluate, train
from tests.control.test_watched_jobs import seen


def test_ps_lists_active_jobs_and_with_all_those_that_are_over(world: Platform, penstock: Penstock) -> None:
    running, gone = world.submit(name="night-run", work=1e6), world.submit(name="mistake", work=1e6)
    world.passes(2)
    assert penstock("cancel", gone).code == 0
    listed = penstock("ps")
    assert listed.code == 0
    assert "night-run" in listed.out
    assert gone not in listed.out
    assert [job["id"] for job in penstock("ps", "--all", "--json").json()["jobs"]] == [gone, running]
    assert penstock("ps", "--quiet").out.split() == [running]
    assert len(penstock("ps", "-a", "--limit", "1", "--json").json()["jobs"]) == 1


def test_an_array_is_one_line_and_is_steered_as_a_whole(world: Platform, penstock: Penstock, served: Served) -> None:
    with served.client() as client:
        array = client.submit_array({"name": "train", "work": 1e6, "at_most": 1}, "1..8")
    world.passes(2)
    listed = penstock("ps")
    assert "train-*" in listed.out
    assert "train-1" not in listed.out
    assert penstock("ps", "-q").out.split() == [array.id]
    assert penstock("ps", "--array", "train", "-q").out.split() == array.jobs[::-1]
    assert len(penstock("ps", "--all", "--json").json()["jobs"]) == 8
    (line,) = penstock("ps", "--json").json()["arrays"]
    assert (line["id"], line["jobs"]) == (array.id, 8)
    assert f"{array.id} train: 8 paused" in penstock("pause", "train").err
    assert "paused" not in penstock("resume", array.id).err
    assert f"{array.id} train: 8 cancelled" in penstock("cancel", array.id).err
    assert "penstock ps -a" in penstock("ps").out
    refused = penstock("cancel", "nothing-there")
    assert (refused.code, "There is no job 'nothing-there'" in refused.err) == (2, True)


def test_hotspots_are_a_table_and_say_where_there_are_none(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night", work=1e6)
    world.passes(3)
    nothing = penstock("hotspots", "night")
    assert (nothing.code, nothing.out) == (0, "")
    assert "scripts that use penstock.elastic are timed" in nothing.err
    world.backend.watches[f"{job}.1"] = seen()
    shown = penstock("hotspots", "night")
    assert "a step takes 500 ms on cpu (steps 80 to 82; profiles cost 0.20% of the run)" in shown.out
    for words in ("communication", "aten::mm", "1.8x slower than the others", "/runs/x/stacks/1"):
        assert words in shown.out
    assert penstock("hotspots", job, "--json").json()["profile"]["kernels_s"] == 0.2
    unknown = penstock("hotspots", "nothing-there")
    assert (unknown.code, "There is no job 'nothing-there'" in unknown.err) == (2, True)


def test_show_says_what_is_seen_in_a_run(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night", work=1e6)
    world.passes(3)
    world.backend.tell(f"{job}.1", ReportKind.LOSS_WRONG, step=3, reason="the loss of step 3 is not a number")
    world.passes()
    assert "seen: the loss of step 3 is not a number" in penstock("show", job).out
    assert "the loss of step 3 is not a number" in penstock("why", job).out


def test_show_of_a_finished_job_says_what_became_of_its_promise(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night", work=100, within=300)
    world.passes(60, every=5.0)
    shown = penstock("show", job).out
    assert ": promise kept, " in shown
    assert "(in " not in shown
    assert "nothing saved yet" not in shown
    assert "kept, " in penstock("ps", "-a").out
    assert penstock("ps", "-a", "--json").json()["jobs"][0]["promise"] == "kept"


def test_an_empty_list_says_what_to_look_at(world: Platform, penstock: Penstock) -> None:
    assert "penstock ps -a" in penstock("ps").out
    assert "no jobs" in penstock("ps", "--all").out


def test_show_why_and_events_tell_one_job(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night-run", work=100, within=1000)
    world.passes(3)
    shown = penstock("show", job)
    assert "night-run" in shown.out
    assert "promised" in shown.out
    assert penstock("show", job, "--json").json()["id"] == job
    assert "now:" in penstock("why", job).out
    assert penstock("why", job, "--json").json()["job_id"] == job
    assert "Submitted" in penstock("events", job).out
    events = penstock("events", job, "--json").json()
    assert events["events"][0]["kind"] == "Submitted"
    assert penstock("events", "--after", str(events["next"] + 10**6)).out == ""


def test_events_are_the_newest_with_the_way_to_older_ones(world: Platform, penstock: Penstock) -> None:
    for name in ("one", "two", "three"):
        world.submit(name=name, work=1e6)
    world.passes(3)
    every = [line.seq for line in world.journal.store.log.page(without=BOOKKEEPING)]
    newest = penstock("events", "--limit", "2")
    assert [int(line.split()[0]) for line in newest.out.splitlines()] == every[-2:]
    assert f"penstock events --before {every[-2]}" in newest.err
    older = penstock("events", "--limit", "2", "--before", str(every[-2]))
    assert [int(line.split()[0]) for line in older.out.splitlines()] == every[-4:-2]
    first = penstock("events", "--limit", "2", "--after", "0")
    assert [int(line.split()[0]) for line in first.out.splitlines()] == every[:2]
    assert first.err == ""
    job = penstock("events", "one", "--limit", "1")
    assert "penstock events one --before" in job.err


def test_logs_print_what_the_workers_printed(world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=5)
    world.passes(60)
    assert world.phase(job).value == "finished"
    assert penstock("logs", job).code == 0
    assert penstock("logs", "--follow", job).code == 0


def test_pause_resume_and_cancel_say_what_became_of_the_job(world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=1e6, within=1e7)
    world.passes(2)
    assert f"{job} paused" in penstock("pause", job).err
    assert job in penstock("resume", job, "--best-effort").err
    assert world.record(job).job.deadline == float("inf")
    assert f"{job} cancelled" in penstock("cancel", job).err
    assert f"{job} cancelled" in penstock("cancel", job).err


def test_an_edit_says_what_is_promised_now_or_what_could_be(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night", work=400, within=1e6)
    world.passes(2)
    edited = penstock("edit", "night", "--deadline", "2h", "--devices", "1..2", "--priority", "7", "--name", "day")
    assert edited.code == 0, edited.err
    assert f"{job} day running" in edited.err
    assert "promised" in edited.err
    assert (world.record(job).job.at_most, world.record(job).job.priority) == (2, 7)
    refused = penstock("edit", "day", "--deadline", "10s")
    assert refused.code == 2
    assert "UTC or later. Nothing was changed" in refused.err
    assert "edited by admin: due in 2h" in penstock("why", job).out
    assert "Edited" in penstock("events", job).out


def test_a_job_that_comes_after_another_says_so(world: Platform, penstock: Penstock, served: Served) -> None:
    first = world.submit(name="data", work=1e6)
    with served.client() as client:
        last = client.submit({"name": "train", "work": 1e6, "after": ["data"]}).job.id
    assert f"reason: it comes after {first}" in penstock("show", last).out
    assert f"now:  blocked: it starts when these finish: {first} (running)" in penstock("why", last).out
    assert "blocked" in penstock("ps").out
    assert penstock("ps", "--state", "blocked", "-q").out.split() == [last]
    assert "Unblocked" not in penstock("events", last).out
    world.commands.cancel(first, ADMIN)
    world.passes()
    waited = penstock("wait", last)
    assert (waited.code, f"what it waits for did not finish: {first} cancelled" in waited.err) == (4, True)


def test_nodes_are_named_once_or_several_times(penstock: Penstock) -> None:
    shown = penstock(
        "submit", "--work", "5", "--nodes", "a,b", "--nodes", "c", "--exclude", "d", "--dry-run", "--", "true"
    )
    assert "only:\n  - a\n  - b\n  - c" in shown.out
    assert "avoid:\n  - d" in shown.out
    both = penstock("submit", "--work", "5", "--nodes", "a,b", "--exclude", "b", "--dry-run", "--", "true")
    assert both.code == 2
    assert "node 'b' is to be used and to be avoided" in both.err


def test_flags_say_what_a_job_comes_after(penstock: Penstock) -> None:
    shown = penstock(
        "submit", "--work", "5", "--after", "a,b", "--after", "c", "--after-any", "--dry-run", "--", "true"
    )
    assert "after:\n- a\n- b\n- c\nafter_any: true\n" in shown.out, shown.err


def test_a_job_is_submitted_for_a_tenant(penstock: Penstock) -> None:
    shown = penstock("submit", "--work", "5", "--tenant", "vision", "--dry-run", "--", "true")
    assert shown.code == 0, shown.err
    assert "vision" in shown.out


def test_what_a_job_saved_is_listed_fetched_and_cleaned(world: Platform, penstock: Penstock, tmp_path: Path) -> None:
    world.platform.files._known_places = FilePlaces(root=tmp_path / "saved", elsewhere=True)
    job = world.submit(name="night", work=1e6, dir=str(tmp_path / "own"))
    assert "nothing saved yet" in penstock("checkpoints", "night").err
    (tmp_path / "own" / "sub").mkdir(parents=True)
    (tmp_path / "own" / "sub" / "last-12.pt").write_bytes(b"123")
    (tmp_path / "own" / "step-12").write_bytes(b"12345")
    (tmp_path / "own" / "link").symlink_to("/etc")
    assert "unchecked" in penstock("checkpoints", "night").out
    assert "sub/last-12.pt" in penstock("files", "night").out
    assert penstock("files", "night", "sub", "--json").json()["files"][0]["bytes"] == 3
    fetched = penstock("files", "night", "--out", "copy")
    assert "2 files, 8B, in copy; 1 links were left out" in fetched.err
    assert (tmp_path / "copy" / "sub" / "last-12.pt").read_bytes() == b"123"
    assert penstock("files", "night", "../other").code == penstock("clean").code == 2
    penstock("cancel", job)
    assert "0B of 0 jobs would go" in penstock("clean", "--older", "0s", "--dry-run").err, "it is not the platform's"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_weights_of_a_checkpoint_are_exported(world: Platform, penstock: Penstock, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.distributed.checkpoint.state_dict_loader import load as torch_load

    from penstock.runtime.checkpoints.checkpoint import Checkpoints
    from penstock.runtime.checkpoints.state import Parts

    world.platform.files._known_places = FilePlaces(root=tmp_path / "saved", elsewhere=True)
    world.submit(name="night", work=1e6, dir=str(tmp_path / "own"))
    assert "not on this machine" in penstock("checkpoints", "night", "--export", "out").err
    parts = Parts(torch.device("cpu"))
    parts.add("model", torch.nn.Linear(3, 2))
    files = Checkpoints(tmp_path / "own")
    files.begin(parts.capture(4))
    files.settle()
    assert "whole, verified" in penstock("checkpoints", "night").out
    done = penstock("checkpoints", "night", "--export", "out", "--step", "4")
    assert (done.code, "the weights of step 4 are in out" in done.err) == (0, True), done.err
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 8 * 4
    done = penstock("checkpoints", "night", "--export", "shards", "--torch")
    assert (done.code, "the weights of step 4 are in shards" in done.err) == (0, True), done.err
    read = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}
    torch_load(read, checkpoint_id=tmp_path / "shards", no_dist=True)
    assert torch.equal(read["weight"], parts.models["model"].weight)
    for wrong, said in (
        (("--hf", "llama"), "without --export"),
        (("--torch",), "without --export"),
        (("--export", "more", "--torch", "--hf", "llama"), "one kind of export"),
        (("--export", "more", "--hf", "lama"), "llama"),
        (("--export", "more", "--step", "7"), "step 7"),
        (("--export", "more", "--config", "none.json"), "none.json"),
        (("--export", "out"), "something is already"),
    ):
        refused = penstock("checkpoints", "night", *wrong)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert not (tmp_path / "more").exists()


def test_several_jobs_are_steered_at_once(world: Platform, penstock: Penstock) -> None:
    jobs = [world.submit(work=1e6) for _ in range(3)]
    assert penstock("cancel", *jobs).code == 0
    assert {world.phase(job).value for job in jobs} == {"cancelled"}


def test_a_job_that_is_over_cannot_be_paused(world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=1e6)
    penstock("cancel", job)
    refused = penstock("pause", job)
    assert refused.code == 2
    assert "cannot be paused. Allowed: a job that is not over. Submit it again." in refused.err


@pytest.mark.parametrize("verb", ["show", "why", "logs", "events", "cancel", "pause", "resume", "report"])
def test_a_job_that_is_not_there_is_named_with_what_to_do_next(verb: str, world: Platform, penstock: Penstock) -> None:
    refused = penstock(verb, "j-nobody")
    assert refused.code == 2
    assert "'j-nobody'" in refused.err
    assert "Allowed: the id of a job of yours" in refused.err


@pytest.mark.usefixtures("as_eve")
@pytest.mark.parametrize("verb", ["show", "cancel", "logs"])
def test_somebody_elses_job_is_as_unknown_as_none(verb: str, served: Served, penstock: Penstock) -> None:
    job = served.world.submit(work=1e6)
    assert penstock(verb, job).code == 2
    assert served.world.phase(job).value != "cancelled"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("resume", "JOB", "--deadline", "6 parsecs"), "parsecs"),
        (("edit", "JOB", "--deadline", "6 parsecs"), "parsecs"),
        (("edit", "JOB", "--devices", "9..2"), "at least 9 and at most 2 devices"),
        (("edit", "JOB", "--devices", "64"), "could run on no number"),
        (("edit", "JOB", "--priority", "101"), "101 is not a priority"),
        (("edit", "JOB", "--name", "no name"), "'no name' is not a name"),
        (("edit", "JOB", "--deadline", "6h", "--best-effort"), "both deadline and best_effort"),
        (("edit", "JOB"), "nothing to change"),
        (("ps", "--limit", "0"), "--limit"),
        (("events", "--after", "-1"), "--after"),
        (("show",), "Missing argument"),
        (("cancel",), "Missing argument"),
    ],
)
def test_bad_options_change_nothing(words: tuple[str, ...], expected: str, world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=1e6, within=1e7)
    penstock("pause", job)
    refused = penstock(*(job if word == "JOB" else word for word in words))
    assert refused.code == 2
    assert expected in refused.err
    assert world.phase(job).value == "paused"


@pytest.mark.usefixtures("world")
def test_an_empty_argument_is_no_job(penstock: Penstock) -> None:
    verbs = [
        "show",
        "why",
        "logs",
        "wait",
        "resubmit",
        "cancel",
        "pause",
        "resume",
        "events",
        "metrics",
        "report",
        "checkpoints",
        "files",
        "hotspots",
    ]
    for words in (*((verb, "") for verb in verbs), ("edit", "", "--priority", "5"), ("checkpoints", " ")):
        refused = penstock(*words)
        assert refused.code == 2, words
        assert "names no job. Allowed: the id or name of a job." in refused.err, words


def test_help_has_no_default_that_the_terminal_swallows(penstock: Penstock) -> None:
    shown = " ".join(penstock("submit", "--help").out.replace("│", " ").split())
    assert "Tenant to charge (default: the tenant of your token)." in shown
    assert "--steps-per-epoch" in shown
    listed = " ".join(penstock("serve", "--help").out.replace("│", " ").split())
    assert "one object a line (default: text)." in listed
    for text in (shown, listed):
        assert re.search(r"\w \.(\s|$)", text) is None


def test_a_flag_says_how_many_steps_an_epoch_has(penstock: Penstock) -> None:
    Path("train.py").touch()
    words = ("submit", "--work", "3 epochs", "--steps-per-epoch", "94", "--dry-run", "--", "train.py")
    assert "steps_per_epoch: 94" in penstock(*words).out


def test_a_job_is_submitted_again_with_another_environment_work_and_devices(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []

    class Taking(Rejecting):
        def submit(self, spec: object, **options: object) -> Submission:
            sent.append(cast("dict[str, Any]", spec))
            return super().submit(spec, **options)

    monkeypatch.setattr("penstock.cli.jobs.resubmit.connect", Taking)
    assert penstock("resubmit", "j-1", "--work", "7 steps", "--devices", "2", "--env", "A=b").code == 3
    assert (sent[0]["devices"], sent[0]["environment"]["env"]) == (2, {"A": "b"})
    assert "7" in str(sent[0]["work"])


def test_an_address_of_something_else_is_named(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        monkeypatch.setenv("PENSTOCK_SERVER", f"http://127.0.0.1:{other.server_port}")
        monkeypatch.setenv("PENSTOCK_TOKEN", "x")
        refused = penstock("ps")
        other.shutdown()
    assert refused.code == 2
    assert "what answers there (404) is not a Penstock server. Allowed: the address of a Penstock server" in refused.err


def test_a_relative_home_is_refused_with_the_absolute_one(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA_DIR", "home")
    refused = penstock("ps")
    assert (refused.code, f"Try {Path.cwd() / 'home'}" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("secrets", "set", "bad name"), "a secret called 'bad name'. Allowed: letters, digits"),
        (("token", "create", "x y"), "a token called 'x y'. Allowed: one word without blanks."),
    ],
)
def test_a_name_that_cannot_be_is_said_in_words(words: tuple[str, ...], said: str, penstock: Penstock) -> None:
    refused = penstock(*words)
    assert (refused.code, said in refused.err) == (2, True), refused.err


class Rejecting:
    """Stands in for a client of a server that rejects every job."""

    def __enter__(self) -> "Rejecting":
        return self

    def __exit__(self, *_: object) -> None: ...

    def quote(self, _: object) -> QuoteView:
        return QuoteView(verdict="refused", reason="too much")

    def job(self, job_id: str) -> JobDetail:
        return JobDetail(
            id=job_id, number=1, name="n", tenant="t", state="declined", submitted_at=datetime.now(UTC),
            quote=self.quote(None), spec={"command": "true", "work": 5},
        )  # fmt: skip

    def submit(self, _: object, **__: object) -> Submission:
        return Submission(job=self.job("j-1"))


@pytest.mark.parametrize(
    "words", [("submit", "--json"), ("submit",), ("quote",), ("quote", "--json"), ("resubmit", "--json"), ("resubmit",)]
)
def test_a_rejection_is_an_exit_code(
    words: tuple[str, ...], penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("job.json").write_text('{"command": "true", "work": 5}')
    where = "jobs" if words[0] == "resubmit" else "submission"
    monkeypatch.setattr(f"penstock.cli.{where}.{words[0]}.connect", Rejecting)
    answered = penstock(*words, "j-1" if words[0] == "resubmit" else "job.json")
    assert answered.code == 3, answered.err


JOB_FILE = "name: mine\ncommand: python train.py\nwork: 100 steps\n"


def test_a_dry_run_shows_what_would_be_submitted_and_needs_no_server(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB_FILE)
    shown = penstock("submit", "job.yaml", "--deadline", "6h", "--env", "SEED=7", "--dry-run")
    assert shown.code == 0, shown.err
    assert "would run: python train.py" in shown.out
    assert "SEED" in shown.out
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("verb", ["submit", "run", "quote", "profile"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere.yaml",), "nowhere.yaml"),
        (("job.yaml", "--work", "5 parsecs"), "parsecs"),
        (("job.yaml", "--set", "dedline=5h"), "Did you mean"),
        (("job.yaml", "--devices", "8..2"), "at least 8 and at most 2 devices"),
        (("job.yaml", "--deadline", "6h", "--best-effort"), "deadline"),
        (("job.yaml", "--env", "SEED"), "SEED"),
        (("job.yaml", "--profile", "sometimes"), "sometimes"),
        (("broken.yaml",), "broken.yaml"),
    ],
)
def test_a_job_that_cannot_be_read_starts_no_server(
    verb: str, words: tuple[str, ...], expected: str, penstock: Penstock, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(JOB_FILE)
    (tmp_path / "broken.yaml").write_text("name: [")
    refused = penstock(verb, *words)
    assert refused.code == 2
    assert expected in refused.err
    assert "Traceback" not in refused.err
    assert not (tmp_path / "data").exists()


def test_waiting_ends_as_the_jobs_end(world: Platform, penstock: Penstock) -> None:
    done, gone = world.submit(work=5), world.submit(work=1e6)
    penstock("cancel", gone)
    world.passes(60)
    waited = penstock("wait", done)
    assert waited.code == 0
    assert f"{done} finished" in waited.err
    assert penstock("wait", done, gone).code == 4


def test_a_wait_is_given_up_and_the_job_goes_on(world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=1e6)
    given_up = penstock("wait", job, "--timeout", "0.2s")
    assert given_up.code == 124
    assert "the job goes on" in given_up.err
    assert world.phase(job).value in ("pending", "running")
    assert penstock("wait", job, "--timeout", "soon").code == 2


def test_an_array_is_awaited_read_and_explained(world: Platform, penstock: Penstock, served: Served) -> None:
    with served.client() as client:
        array = client.submit_array({"name": "train", "work": 1, "at_most": 1}, "1..3")
    world.passes(2)
    explained = penstock("why", "train")
    assert (explained.code, f"{array.id} train: " in explained.out) == (0, True), explained.err
    assert f"train-2 ({array.jobs[1]})" in explained.out
    assert {story["job_id"] for story in penstock("why", array.id, "--json").json()} == set(array.jobs)
    world.passes(150)
    assert {world.phase(job).value for job in array.jobs} == {"finished"}
    for name in ("train", array.id):
        waited = penstock("wait", name)
        assert waited.code == 0, waited.err
        assert all(f"{job} finished" in waited.err for job in array.jobs)
        assert f"[train-3 ({array.jobs[2]})]" in penstock("logs", name).out
        assert penstock("ps", "--array", name, "-q").out.split() == array.jobs[::-1]
    assert penstock("logs", "nothing-there").code == 2


def test_ps_filters_and_sorts(world: Platform, penstock: Penstock) -> None:
    beta, alpha = world.submit(name="beta", work=1e6), world.submit(name="alpha", work=1e6)
    gone = world.submit(name="gamma", work=1e6)
    penstock("cancel", gone)
    assert penstock("ps", "-q").out.split() == [alpha, beta]
    assert penstock("ps", "-q", "--sort", "name").out.split() == [alpha, beta]
    assert penstock("ps", "-aq", "--sort", "state").out.split()[0] == gone
    assert penstock("ps", "-q", "--state", "cancelled").out.split() == [gone]
    assert penstock("ps", "-q", "--tenant", "nobody").out.split() == []
    assert "no such jobs" in penstock("ps", "--tenant", "nobody").out
    refused = penstock("ps", "--state", "asleep")
    assert refused.code == 2
    assert "unknown state 'asleep'" in refused.err
    assert penstock("ps", "--sort", "colour").code == 2


def test_what_evaluations_found_is_listed_shown_and_left_out_of_long_lists(world: Platform, penstock: Penstock) -> None:
    job = train(world)
    assert "no checkpoint of night has been evaluated" in penstock("evaluations", "night").err
    for step, accuracy in ((10, 0.7), (20, 0.5)):
        evaluation = evaluate(world, job, step, accuracy)
    listed = penstock("evaluations", "night")
    assert f"{evaluation} finished arc/accuracy 0.5" in " ".join(listed.out.split())
    assert "step 20 got worse: arc/accuracy 0.5, was 0.7 at step 10" in listed.out
    found = penstock("evaluations", job, "--json").json()["evaluations"]
    assert [(each["step"], each["results"]) for each in found] == [
        (10, {"arc/accuracy": 0.7}),
        (20, {"arc/accuracy": 0.5}),
    ]
    shown = penstock("show", job).out
    assert "evaluated at step 20 (finished): arc/accuracy 0.5" in shown
    assert "step 20 got worse" in shown
    assert penstock("show", evaluation).code == 0
    assert penstock("ps", "--all", "-q").out.split() == [job]
    assert penstock("ps", "--all", "--evaluations", "-q").out.split()[0] == evaluation
    assert "eval/arc/accuracy" in penstock("metrics", "night").out
