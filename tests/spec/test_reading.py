"""What a person may write in a job file, and what it means."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import BestEffort, Curve, Deadline, InputError, JobError, Strictness
from penstock.spec import JobFile, dump_yaml, job, load_job_file, parse_job, to_mapping
from penstock.spec.documents import parse_yaml
from penstock.spec.quantities import duration_text, range_text, read_duration, read_range

NOW = 1_790_000_000.0
CURVE = Curve.from_table({1: 10.0, 2: 18.0, 4: 30.0})

FULL = """\
# yaml-language-server: $schema=./penstock-job.schema.json
name: resnet50-night
script: train.py
args: [--lr, 1e-3, --amp]
work: 30 epochs
dataset_size: 50_000
global_batch: 256
goal:
  deadline: 2026-12-01T18:00
  strictness: soft
devices: 2..8
kinds: [nvidia.com/gpu, cpu]
environment:
  requirements: requirements.txt
  env:
    OMP_NUM_THREADS: 4
    ALPHA: 1e-3
    NORWAY: no
    PADDED: 007
  working_dir: code
checkpoint:
  dir: states
  every: 1h30m
retries:
  max: 5
  backoff: 500ms
tenant: vision
priority: 70
hang_after: 30m
grace: 45s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('training')\n")
    (tmp_path / "requirements.txt").write_text("einops\n")
    return tmp_path


def small(**more: Any) -> JobFile:
    return parse_job({"command": "python train.py", "work": "100 steps", **more})


def test_a_whole_file_is_understood(folder: Path) -> None:
    (folder / "job.yaml").write_text(FULL)

    found = load_job_file(folder / "job.yaml")

    assert (found.name, found.script, found.args) == ("resnet50-night", "train.py", ("--lr", "1e-3", "--amp"))
    assert found.steps == 30 * 196
    assert (found.devices.min, found.devices.max) == (2, 8)
    assert found.kinds == ("nvidia.com/gpu", "cpu")
    assert found.environment.env == {"OMP_NUM_THREADS": "4", "ALPHA": "1e-3", "NORWAY": "no", "PADDED": "007"}
    assert found.working_dir == folder / "code"
    assert found.environment.requirements == str(folder / "requirements.txt")
    assert found.checkpoint.dir == str(folder / "states")
    assert (found.checkpoint.every, found.retries.max, found.retries.backoff) == (5400.0, 5, 0.5)
    assert (found.tenant, found.priority, found.hang_after, found.grace) == ("vision", 70, 1800.0, 45.0)


def test_a_json_file_means_the_same(folder: Path) -> None:
    (folder / "job.json").write_text('{\n\t"script": "train.py", "work": 100, "environment": {"working_dir": "code"}}')
    (folder / "job.yaml").write_text("script: train.py\nwork: 100\nenvironment: {working_dir: code}\n")

    assert load_job_file(folder / "job.json") == load_job_file(str(folder / "job.yaml"))


def test_a_file_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    (folder / "job.yaml").write_bytes(b"\xef\xbb\xbfcommand: python -V\nwork: 5 steps\n")

    assert load_job_file(folder / "job.yaml").command_line() == ("python", "-V")


@pytest.mark.parametrize(
    ("work", "more", "steps"),
    [
        ("10_000 steps", {}, 10_000),
        ("10k steps", {}, 10_000),
        (500, {}, 500),
        ("1 step", {}, 1),
        ("1.5M iterations", {}, 1_500_000),
        ("30 epochs", {"steps_per_epoch": 10}, 300),
        ("2.5 epochs", {"steps_per_epoch": 3}, 8),
        ("1 epoch", {"dataset_size": "1000", "global_batch": 256}, 4),
    ],
)
def test_work_is_counted_in_steps(work: object, more: dict[str, Any], steps: int) -> None:
    assert small(work=work, **more).steps == steps


@pytest.mark.parametrize(
    ("devices", "bounds"),
    [
        (4, (4, 4)),
        ("4", (4, 4)),
        ("1..8", (1, 8)),
        ("2 .. 8", (2, 8)),
        ("2..", (2, None)),
        ("..8", (1, 8)),
        ({"min": 2, "max": "1_000"}, (2, 1000)),
        ({"max": 3}, (1, 3)),
        ({}, (1, None)),
    ],
)
def test_devices_are_bounds(devices: object, bounds: tuple[int, int | None]) -> None:
    found = small(devices=devices).devices

    assert (found.min, found.max) == bounds


@pytest.mark.parametrize(
    ("given", "goal"),
    [
        ({}, BestEffort()),
        ({"best_effort": True}, BestEffort()),
        ({"best_effort": False}, BestEffort()),
        ({"goal": {"best_effort": True}}, BestEffort()),
        ({"deadline": "6h"}, Deadline(NOW + 21600)),
        ({"deadline": 3600}, Deadline(NOW + 3600)),
        ({"deadline": timedelta(hours=1)}, Deadline(NOW + 3600)),
        ({"deadline": datetime(2027, 1, 1, tzinfo=UTC)}, Deadline(1798761600.0)),
        ({"deadline": "2027-01-01T02:00+02:00"}, Deadline(1798761600.0)),
        ({"goal": {"deadline": "6h", "strictness": "soft"}}, Deadline(NOW + 21600, Strictness.SOFT)),
    ],
)
def test_goals_are_counted_from_submission(given: dict[str, Any], goal: object) -> None:
    assert small(**given).to_job(job_id="j-1", curve=CURVE, now=NOW, resumable=True).goal == goal


def test_a_deadline_in_the_past_is_refused_in_words() -> None:
    with pytest.raises(JobError, match="was 2h ago"):
        small(deadline=datetime.fromtimestamp(NOW - 7200.0, UTC)).goal_at(NOW)
    late = small(deadline="2026-01-01T00:00")
    with pytest.raises(
        JobError, match=r"the deadline 2026-01-01T00:00[+-]\d\d:\d\d was \d+d \d+h ago.*Give a later one"
    ):
        late.to_job(job_id="j-1", curve=CURVE, now=NOW, resumable=True)


def test_the_scheduler_gets_everything_it_asks_about() -> None:
    found = small(
        name="night", devices="2..8", kinds="cpu, nvidia.com/gpu", tenant="vision", priority=7, global_batch=6,
        checkpoint={"every": "5m"},
    ).to_job(job_id="j-1", curve=CURVE, now=NOW, resumable=True)  # fmt: skip

    assert (found.id, found.work.iterations, found.curve, found.submitted_at) == ("j-1", 100.0, CURVE, NOW)
    assert (found.requested, found.at_least, found.at_most) == (2, 2, 6)
    assert (found.kinds, found.tenant, found.priority) == (("cpu", "nvidia.com/gpu"), "vision", 7)
    assert (found.checkpoint_every_s, found.model, found.batch) == (300.0, "night", 6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"script": "train.py", "args": ["--lr", 0.1]}, ("py3", "train.py", "--lr", "0.1")),
        ({"command": ["python", "a b.py"]}, ("python", "a b.py")),
        ({"command": "python 'a b.py' --x=1"}, ("python", "a b.py", "--x=1")),
        ({"command": "cd sub && python x.py"}, ("/bin/sh", "-ec", "cd sub && python x.py")),
        ({"command": "A=1 python x.py"}, ("/bin/sh", "-ec", "A=1 python x.py")),
        ({"command": "python x.py $HOME"}, ("/bin/sh", "-ec", "python x.py $HOME")),
        ({"command": "echo 1 # don't\ntrue"}, ("/bin/sh", "-ec", "echo 1 # don't\ntrue")),
    ],
)
def test_a_shell_starts_only_what_needs_one(given: dict[str, Any], words: tuple[str, ...]) -> None:
    assert parse_job({"work": 1, **given}).command_line(python="py3") == words


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"script": "src/train resnet.py"}, "train-resnet"),
        ({"command": "torchrun --standalone main.py"}, "main"),
        ({"command": ["./run.sh"]}, "run"),
        ({"command": "…"}, "job"),
        ({"command": "x", "name": "mine"}, "mine"),
    ],
)
def test_a_job_without_a_name_gets_one(given: dict[str, Any], name: str) -> None:
    assert parse_job({"work": 1, **given}).name == name


def test_python_may_use_its_own_types() -> None:
    found = job(script=Path("train.py"), work=10, grace=timedelta(seconds=5), checkpoint={"dir": Path("/states")})

    assert (found.script, found.grace, found.checkpoint.dir) == ("train.py", 5.0, "/states")


def test_what_is_watched_reaches_the_workers() -> None:
    assert small().watch.variables == {"PENSTOCK_WATCH_LOSS": "auto", "PENSTOCK_WATCH_HOTSPOTS": "on"}
    found = parse_job(parse_yaml("command: x\nwork: 5\nwatch: {loss: off, hotspots: false}\n", "x").values)
    assert found.watch.variables == {"PENSTOCK_WATCH_LOSS": "off", "PENSTOCK_WATCH_HOTSPOTS": "off"}
    assert parse_job(to_mapping(found)) == found


def test_what_is_a_hang_is_learned_unless_the_file_says_it() -> None:
    assert small().hang_after is None
    assert (small().learns_hangs, small().hang_limit_s) == (True, None)
    assert small(hang_after="learned").hang_after is None
    never = small(hang_after="never")
    assert (never.learns_hangs, never.hang_limit_s) == (False, None)
    assert to_mapping(never)["hang_after"] == "never"
    assert (small(hang_after="30m").learns_hangs, small(hang_after="30m").hang_limit_s) == (False, 1800.0)


COUNTS = st.integers(1, 10**6)
DURATIONS = st.one_of(st.integers(1, 10**7).map(float), st.floats(0.001, 1e6))
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
JOBS = st.fixed_dictionaries(
    {"command": st.lists(WORDS, min_size=1, max_size=3), "work": COUNTS | COUNTS.map(lambda n: f"{n / 8} epochs")},
    optional={
        "name": st.from_regex(r"[A-Za-z0-9]{1,9}", fullmatch=True),
        "devices": COUNTS | st.tuples(COUNTS, COUNTS).map(lambda pair: f"{min(pair)}..{max(pair)}"),
        "goal": st.fixed_dictionaries(
            {"deadline": DURATIONS.map(duration_text), "strictness": st.sampled_from(Strictness)}
        )
        | st.just({"deadline": "6h", "then": {"8h": "50 %", "12h": "12.5%"}}),
        "environment": st.fixed_dictionaries(
            {"env": st.dictionaries(st.from_regex(r"[A-Z]{1,4}", fullmatch=True).filter("RANK".__ne__), WORDS)},
            optional={
                "requirements": WORDS | st.lists(WORDS.filter(lambda word: word[0] != "-")),
                "working_dir": WORDS,
            },
        ),
        "checkpoint": st.fixed_dictionaries({"every": DURATIONS}, optional={"dir": WORDS}),
        "retries": st.integers(0, 99) | st.fixed_dictionaries({"max": st.integers(0, 9), "backoff": DURATIONS}),
        "hang_after": DURATIONS | st.none(),
        "grace": DURATIONS,
        "priority": st.integers(0, 100),
    },
)


@given(JOBS)
def test_what_is_written_down_is_read_back(values: dict[str, Any]) -> None:
    first = parse_job({"steps_per_epoch": 8, **values})

    assert parse_job(parse_yaml(dump_yaml(first), "job.yaml").values) == first
    assert parse_job(to_mapping(first)) == first


@given(DURATIONS)
def test_durations_are_written_exactly(seconds: float) -> None:
    assert read_duration(duration_text(seconds)) == pytest.approx(seconds, rel=1e-12)


@given(st.integers(1, 10**9), st.none() | st.integers(0, 10**6))
def test_ranges_are_written_exactly(least: int, more: int | None) -> None:
    most = None if more is None else least + more

    assert read_range(range_text(least, most)) == (least, most)


def test_secrets_are_named_and_never_given() -> None:
    base = {"command": "true", "work": 1}
    listed = parse_job(base | {"secrets": ["HF_TOKEN"]})
    assert [(use.variable, use.secret, use.as_file) for use in listed.secret_uses] == [("HF_TOKEN", "HF_TOKEN", False)]
    named = parse_job(base | {"secrets": {"KEY": "file:deploy", "TOKEN": "hf"}})
    assert [(use.variable, use.secret, use.as_file) for use in named.secret_uses] == [
        ("KEY", "deploy", True), ("TOKEN", "hf", False),
    ]  # fmt: skip
    assert parse_job(to_mapping(named)) == named
    for wrong in ({"TOKEN": "hf_abc=/+secret"}, {"RANK": "hf"}, "hf", {"TOKEN": 4}, {"A B": "hf"}):
        with pytest.raises(InputError) as refused:
            parse_job(base | {"secrets": wrong})
        assert "hf_abc=/+secret" not in str(refused.value), "it may be the value itself"
    with pytest.raises(InputError, match="both a secret and a variable"):
        parse_job(base | {"secrets": ["TOKEN"], "environment": {"env": {"TOKEN": "x"}}})


def test_who_says_that_it_can_resume(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\nprint('penstock.elastic is not used')\n")
    (tmp_path / "mine.py").write_text("import torch\nimport penstock.elastic as elastic\n")
    here = {"environment": {"working_dir": str(tmp_path)}, "work": 5}
    assert not parse_job({"script": "plain.py", **here}).says_resumable
    assert parse_job({"script": "plain.py", "resumable": True, **here}).says_resumable
    assert parse_job({"script": "mine.py", **here}).says_resumable
    assert not parse_job({"script": "mine.py", "resumable": False, **here}).says_resumable
    assert parse_job({"command": "python mine.py --lr 3", **here}).says_resumable
    assert not parse_job({"command": "python gone.py", **here}).says_resumable
