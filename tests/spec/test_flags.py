"""Jobs from the command line: flags alone, and flags over a file."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import Deadline, InputError, JobError, Strictness, UnknownNameError, ValueStep
from penstock.spec import from_flags


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("pass\n")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "other.py").write_text("pass\n")
    (tmp_path / "jobs" / "job.yaml").write_text(
        "name: night\nscript: other.py\nargs: [--fast]\nwork: 100 steps\ndevices: 2..4\n"
        "goal: {deadline: 6h, strictness: soft}\nenvironment: {env: {A: 1, B: 2}}\ncheckpoint: {every: 5m}\n"
    )
    return tmp_path


def test_a_script_and_its_arguments(folder: Path) -> None:
    found = from_flags(["train.py", "--lr", "0.1"], work="10 steps", here=folder)

    assert found.command_line(python="py") == ("py", str(folder / "train.py"), "--lr", "0.1")
    assert (found.name, found.working_dir, found.steps) == ("train", folder, 10)


def test_a_command(folder: Path) -> None:
    found = from_flags(["bash", "train.sh"], work="10 steps", here=folder)

    assert found.command_line() == ("bash", "train.sh")


def test_every_flag_reaches_its_key(folder: Path) -> None:
    (folder / "requirements.txt").write_text("")
    found = from_flags(
        ["train.py"], here=folder, env=["A=1=2", "B="], sets=["checkpoint.dir=states", "retries={max: 1, backoff: 1s}"],
        name="n", work="2 epochs", global_batch="64", dataset_size="10k", deadline="6h", strictness="soft",
        devices="1..8", kinds=["cpu"], requirements="requirements.txt", checkpoint_every="1m", tenant="t", priority="9",
        hang_after="1h", grace="5s", retries=None, best_effort=None, steps_per_epoch=None, working_dir=None,
    )  # fmt: skip

    assert (found.name, found.steps, found.devices.max, found.kinds) == ("n", 314, 8, ("cpu",))
    assert found.goal is not None
    assert (found.goal.deadline, found.goal.strictness) == ("6h", Strictness.SOFT)
    assert found.environment.env == {"A": "1=2", "B": ""}
    assert found.environment.requirements == str(folder / "requirements.txt")
    assert (found.checkpoint.dir, found.checkpoint.every) == (str(folder / "states"), 60.0)
    assert (found.retries.max, found.retries.backoff) == (1, 1.0)
    assert (found.tenant, found.priority, found.hang_after, found.grace) == ("t", 9, 3600.0, 5.0)


def test_flags_go_over_the_file_and_leave_the_rest(folder: Path) -> None:
    file = folder / "jobs" / "job.yaml"

    found = from_flags(
        file=file, here=folder, devices="8", env=["B=3"], sets=["checkpoint.every=1h"], checkpoint_dir="s"
    )

    assert (found.name, found.script, found.args) == ("night", "other.py", ("--fast",))
    assert found.working_dir == folder / "jobs"
    assert (found.devices.min, found.devices.max) == (8, 8)
    assert found.environment.env == {"A": "1", "B": "3"}
    assert (found.checkpoint.every, found.checkpoint.dir) == (3600.0, str(folder / "s"))


def test_a_command_replaces_the_script_of_the_file(folder: Path) -> None:
    found = from_flags(["train.py"], file=folder / "jobs" / "job.yaml", here=folder)

    assert found.command_line(python="py") == ("py", str(folder / "train.py"))


def test_a_goal_by_flag_replaces_the_goal_of_the_file(folder: Path) -> None:
    file = folder / "jobs" / "job.yaml"

    late, never = (
        from_flags(file=file, here=folder, deadline="9h"),
        from_flags(file=file, here=folder, best_effort=True),
    )
    strict = from_flags(file=file, here=folder, strictness="hard")
    both = from_flags(file=file, here=folder, strictness="soft", deadline="2h")

    assert (late.goal, late.deadline) == (None, "9h")
    assert (never.goal, never.best_effort) == (None, True)
    assert strict.goal is not None
    assert (strict.goal.deadline, strict.goal.strictness) == ("6h", Strictness.HARD)
    assert both.goal is not None
    assert (both.goal.deadline, both.goal.strictness) == ("2h", Strictness.SOFT)


def test_what_late_is_worth_comes_by_flag_too(folder: Path) -> None:
    given = from_flags(["train.py"], here=folder, work="5", deadline="2h", then=["3h=50%", "4h = 12.5 %"])
    kept = from_flags(file=folder / "jobs" / "job.yaml", here=folder, then=["8h=50%"])

    assert given.goal_at(0.0) == Deadline(7200.0, Strictness.SOFT, (ValueStep(10800.0, 0.5), ValueStep(14400.0, 0.125)))
    assert kept.goal is not None
    assert (kept.goal.deadline, kept.goal.then) == ("6h", {"8h": 0.5})
    with pytest.raises(InputError, match=r"--then '8h'\. Allowed: DEADLINE=PERCENTAGE.*Try --then 8h=50%"):
        from_flags(["train.py"], here=folder, work="5", deadline="2h", then=["8h"])
    with pytest.raises(JobError, match=r"--then: a value of 50% that ends no later"):
        from_flags(["train.py"], here=folder, work="5", deadline="2h", then=["1h=50%"])


def test_a_wrong_flag_is_named(folder: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"devices": "many"}, "^--devices: 'many' is not a range"),
        ({"checkpoint_every": "soon"}, "^--checkpoint-every: 'soon' is not a duration"),
        ({"env": ["A"]}, "^--env 'A'"),
        ({"env": ["RANK=1"]}, "variable 'RANK' is set by Penstock"),
        ({"sets": ["x"]}, "^--set 'x'"),
        ({"sets": ["goal.when=6h"]}, "^--set goal.when: unknown key in goal 'when'"),
        ({"sets": ["grace=[1"]}, "^the value, line"),
        ({"work": None}, '^the command line: work is missing.*--work "1 step" if the script counts nothing'),
    ]
    for flags, complaint in wrong:
        with pytest.raises(InputError, match=complaint):
            from_flags(["train.py"], here=folder, **{"work": "1 step", **flags})


def test_a_missing_script_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^script: there is no file .*gone\.py"):
        from_flags(["gone.py"], here=folder, work="1 step")


def test_a_flag_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown flag 'device'.*'devices'"):
        from_flags(["train.py"], here=folder, work="1 step", device=3)  # type: ignore[call-arg]
