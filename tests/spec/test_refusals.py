"""What a job file may not say, and how it is told: one sentence with the place, what is allowed and what to do."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError, UnknownNameError
from penstock.spec import JobFile, job, load_job_file, parse_job
from tests.tools import needs

GOOD = {"command": "python train.py", "work": "100 steps"}


def refusal(text: str, folder: Path, name: str = "job.yaml") -> str:
    file = folder / name
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_job_file(file)
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("comand: python train.py\nwork: 5\n", "job.yaml, line 1: unknown key 'comand'"),
        ("command: x\nwork: 5\n\ngpus: 8\n", "job.yaml, line 4: unknown key 'gpus'"),
        (
            "command: x\nwork: 5\ndevices:\n  min: 1\n  maximum: 2\n",
            "job.yaml, line 5: unknown key in devices 'maximum'",
        ),
        ("command: x\nwork: 5\ncheckpoint: {evry: 3m}\n", "line 3: unknown key in checkpoint 'evry'"),
        ("command: x\nwork: 5\ngoal:\n  deadlin: 3m\n", "line 4: unknown key in goal 'deadlin'"),
        ("command: x\nwork: 5\ncommand: y\n", "line 3: the key 'command' is given twice, first on line 1"),
        ("command: x\nwork: five epochs\n", "job.yaml, line 2: work: 'five epochs' is not an amount of work"),
        ("command: x\nwork: 5 eons\n", "line 2: work: unknown unit of work 'eons'"),
        (
            "command: x\nwork: 30 epochs\n",
            "line 2: work: 30 epochs cannot be counted in steps: dataset_size is missing",
        ),
        (
            "command: x\nwork: 1 epoch\ndataset_size: 9\n",
            "line 2: work: 1 epochs cannot be counted in steps: global_batch",
        ),
        ("command: x\nwork: 5\ndevices: 8..2\n", "line 3: devices: at least 8 and at most 2 devices"),
        ("command: x\nwork: 5\ndevices: all\n", "line 3: devices: 'all' is not a range"),
        ("command: x\nwork: 5\ndevices: {min: 0}\n", "line 3: devices.min: 0 is not a count"),
        (
            "command: x\nwork: 5\ndevices: [1, 2]\n",
            "line 3: devices: [1, 2] is not a mapping. Allowed: the keys min, max",
        ),
        ("command: x\nwork: 5\ndevices: 8\nglobal_batch: 4\n", "line 3: devices: a global batch of 4 on at least 8"),
        (
            "command: x\nwork: 999999999999999 steps\n",
            "line 2: work: '999999999999999 steps' is more work than any job",
        ),
        (
            "command: x\nwork: 900_000_000 epochs\nsteps_per_epoch: 1_000_000\n",
            "line 2: work: 900000000 epochs are 900_000_000_000_000 steps, more than any job has",
        ),
        (
            "command: x\nwork: 5\ndeadline: 99999999999w\n",
            "line 3: deadline: a deadline of '99999999999w' is more than",
        ),
        ("command: x\nwork: 5\ngrace: 99999999999w\n", "line 3: grace: '99999999999w' is more than a century"),
        ("command: x\nwork: 5\nhang_after: 1e300\n", "line 3: hang_after: "),
        ("command: x\nwork: 5\nwatch:\n  loss: maybe\n", "line 4: watch.loss: "),
        ("command: x\nwork: 5\nwatch:\n  hotspots: 3\n", "line 4: watch.hotspots: 3 is neither true nor false"),
        ("command: x\nwork: 5\nwatch:\n  los: tell\n", "loss"),
        ("command: x\nwork: 5\nhang_after: soon\n", "line 3: hang_after: 'soon' is not a duration"),
        ("command: x\nwork: 5\ngrace: soon\n", "line 3: grace: 'soon' is not a duration"),
        ("command: x\nwork: 5\ncheckpoint:\n  every: 0s\n", "line 4: checkpoint.every: '0s' is no time at all"),
        ("command: x\nwork: 5\ndeadline: soon\n", "line 3: deadline: 'soon' is not a deadline"),
        ("command: x\nwork: 5\ndeadline: 0h\n", "line 3: deadline: a deadline of '0h' is over at once"),
        ("command: x\nwork: 5\ndeadline: 2026-13-01\n", "line 3: deadline: '2026-13-01' is not a date and time"),
        (
            "command: x\nwork: 5\ndeadline: 6h\nbest_effort: true\n",
            "line 4: best_effort: both deadline and best_effort",
        ),
        ("command: x\nwork: 5\ngoal: {strictness: hard}\n", "line 3: goal: a goal without deadline or best_effort"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, strictness: firm}\n", "goal.strictness: unknown strictness 'firm'"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {8h: 120%}}\n", "goal.then: '120%' is not a percentage"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {8h: 0.5}}\n", "0.5 is not a percentage"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {8h: 20%, 12h: 50%}}\n", "a value of 50% after one of 20%"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {8h: 100%}}\n", "a value of 100% after one of 100%"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {8h: 0%}}\n", "above 0%"),
        (
            "command: x\nwork: 5\ngoal: {deadline: 6h, then: {12h: 50%, 8h: 20%}}\n",
            "a value of 20% that ends no later than the 50% before it",
        ),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {5h: 50%}}\n", "ends no later than the 100% before it"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: half}\n", "goal.then: 'half' is not a set of later values"),
        ("command: x\nwork: 5\ngoal: {deadline: 6h, then: {soon: 50%}}\n", "'soon' is not a deadline"),
        (
            "command: x\nwork: 5\ngoal: {deadline: 6h, then: {2090-01-01T12:00: 50%}}\n",
            "durations from submission alone, or dates alone",
        ),
        (
            "command: x\nwork: 5\ngoal: {deadline: 6h, strictness: hard, then: {8h: 50%}}\n",
            "goal.strictness: a hard deadline with values after it",
        ),
        ("command: x\nwork: 5\ngoal: {best_effort: true, then: {8h: 50%}}\n", "later values without a deadline"),
        ("command: x\nwork: 5\nbest_effort: maybe\n", "best_effort: 'maybe' is neither true nor false"),
        ("command: x\nwork: 5\nafter: [a, b c]\n", "line 3: after: 'b c' is not a job. Allowed: ids or names of jobs"),
        (
            f"command: x\nwork: 5\nafter: {[f'j{each}' for each in range(101)]}\n",
            "101 jobs to wait for. Allowed: at most 100",
        ),
        ("command: x\nwork: 5\nafter_any: true\n", "line 3: after_any: after_any without after."),
        ("command: x\nwork: 5\npriority: 101\n", "line 3: priority: 101 is not a priority. Allowed: 0 (least) to 100"),
        ("command: x\nwork: 5\nname: my job\n", "line 3: name: 'my job' is not a name"),
        ("command: x\nwork: 5\nenvironment:\n  env:\n    RANK: 3\n", "variable 'RANK' is set by Penstock itself"),
        ("command: x\nwork: 5\nenvironment:\n  env: [A]\n", "line 4: environment.env: ['A'] is not a set of variables"),
        (
            "command: x\nwork: 5\nenvironment:\n  env: {A: [1]}\n",
            "line 4: environment.env: variable A: ['1'] is not a word",
        ),
        (
            "command: x\nwork: 5\nenvironment: {requirements: [-r more.txt]}\n",
            "'-r more.txt' in a list of requirements",
        ),
        ("command: x\nwork: 5\nretries: -1\n", "retries.max: -1 is not a whole number"),
        ("command: x\nscript: y.py\nwork: 5\n", "line 1: command: both command and script"),
        ("work: 5\n", "job.yaml: command: neither command nor script"),
        ("command: x\n", "job.yaml: work is missing"),
        ("command: x\nargs: [a]\nwork: 5\n", "line 2: args: args without a script"),
        ("command: ''\nwork: 5\n", "line 1: command: '' is not usable text"),
        ("command: []\nwork: 5\n", "line 1: command: an empty command"),
        ('command: [" ", x]\nwork: 5\n', "line 1: command: an empty command"),
        ("command: python 'x\nwork: 5\n", 'line 1: command: the command "python \'x" has an open quote'),
        ("command: {a: 1}\nwork: 5\n", "line 1: command: {'a': '1'} is not a command"),
        ("script: nowhere.py\nwork: 5\n", "line 1: script: there is no file nowhere.py"),
        (
            "command: x\nwork: 5\nenvironment:\n  working_dir: gone\n",
            "line 4: environment.working_dir: there is no dir",
        ),
        ("command: x\nwork: 5\nenvironment:\n  requirements: numpy\n", "give packages as a list: [numpy]"),
    ],
)
def test_the_place_and_the_problem_are_named(text: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "job.yaml holds nothing"),
        ("# only a comment\n", "job.yaml holds nothing"),
        ("- a\n- b\n", "job.yaml holds a list"),
        ("just words\n", "job.yaml holds a str"),
        ("command: x\n\twork: 5\n", "job.yaml, line 2"),
        ("command: [x\nwork: 5\n", "job.yaml, line 2"),
        ("command: x\n---\nwork: 5\n", "job.yaml, line 2"),
        ("command: !!python/object:os.system x\nwork: !weird 5\n", "line 2: the tag '!weird'"),
        ("? [a, b]\n: 5\n", "line 1: a key that is not a word"),
        ("command: x\x07\n", "job.yaml: "),
        ("a: &a [*a]\n", "job.yaml"),
        ("[" * 5000, "job.yaml is nested too deeply"),
    ],
)
def test_what_is_not_yaml_is_told_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(text, tmp_path)


def test_an_alias_that_multiplies_itself_is_stopped(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]

    assert "the file grows without end" in refusal("\n".join(lines), tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"command": "x",\n "work": }', "job.json, line 2, column 10: expecting value"),
        ('{"work": 1, "work": 2}', "job.json: the key 'work' is given twice"),
        ("[" * 100_000, "job.json is nested too deeply"),
        ("null", "job.json holds nothing"),
        ('{"command": "x", "work": 5, "wrok": 6}', "job.json: unknown key 'wrok'"),
    ],
)
def test_what_is_not_json_is_told_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in refusal(text, tmp_path, "job.json")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("name: größe\n".encode("latin-1"))
    (tmp_path / "huge.yaml").write_bytes(b"#" * (1 << 19))

    for name, complaint in [
        ("missing.yaml", "there is no file"),
        ("", "is a directory"),
        ("latin.yaml", "byte 8 is not UTF-8"),
        ("huge.yaml", "has 524288 bytes"),
        ("nul\0.yaml", "cannot be read"),
    ]:
        with pytest.raises(InputError, match=complaint):
            load_job_file(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason=needs.reason("root may read everything", needs.ORDINARY_USER))
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("work: 5\n")
    (tmp_path / "job.yaml").chmod(0)

    with pytest.raises(InputError, match="cannot be read"):
        load_job_file(tmp_path / "job.yaml")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("comand", "command"),
        ("gpus", "devices"),
        ("batch_size", "global_batch"),
        ("env", "environment.env"),
        ("dedline", "deadline"),
    ],
)
def test_the_right_key_is_suggested(key: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"the job: unknown key '{key}'.*Did you mean '{meant}'\?"):
        parse_job({**GOOD, key: 1})


def test_a_misspelt_key_is_told_before_what_it_leaves_missing() -> None:
    with pytest.raises(UnknownNameError, match="wrok"):
        parse_job({"command": 3.5j, "wrok": "5 steps"})


def test_from_python_the_call_is_named() -> None:
    with pytest.raises(InputError, match=r"job\(\): devices: 'many' is not a range"):
        job(**GOOD, devices="many")


@pytest.mark.parametrize(
    "wrong",
    [
        {"work": "1e400"}, {"work": 10**5000}, {"work": float("nan")}, {"grace": 10**5000}, {"grace": "1e999h"},
        {"global_batch": "9" * 5000}, {"deadline": "0001-01-01T00:00+14:00"}, {"deadline": "9" * 999},
        {"deadline": float("inf")}, {"environment": {"env": {"A": "\ud800"}}}, {"command": ["a\0b"]},
        {"priority": 1e300},
        {"args": "x"}, {"devices": 2**70}, {"devices": True}, {"retries": True}, {"goal": "6h"}, {"environment": 3},
    ],
)  # fmt: skip
def test_extreme_values_are_only_wrong_values(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"the job: {next(iter(wrong))}"):
        parse_job({**GOOD, **wrong})


def test_a_number_of_thousands_of_digits_is_only_a_wrong_value(tmp_path: Path) -> None:
    digits = "9" * 5000

    assert "work: '999" in refusal(f"command: x\nwork: {digits}\n", tmp_path)
    assert "job.json: " in refusal(f'{{"command": "x", "work": {digits}}}', tmp_path, "job.json")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def test_a_secret_that_is_a_list_is_refused_like_any_other_that_is_no_name() -> None:
    with pytest.raises(InputError, match="not the name of a variable"):
        parse_job({"command": "x", "work": 1, "secrets": [[]]})


KEYS = st.sampled_from([*JobFile.model_fields, "min", "max", "env", "requirements", "dir", "every", "backoff"])


@given(st.dictionaries(KEYS, JUNK | st.dictionaries(KEYS, JUNK, max_size=3), max_size=5))
def test_no_value_whatever_gets_anything_but_one_short_complaint(values: dict[str, Any]) -> None:
    for mapping in (values, {**GOOD, **values}):
        try:
            parse_job(mapping)
        except InputError as refused:
            complaint = str(refused)
            assert "pydantic" not in complaint
            assert len(complaint) < 900


@given(st.text(max_size=60))
def test_no_text_whatever_gets_anything_but_an_input_error(text: str) -> None:
    from penstock.spec.documents import parse_json, parse_yaml

    for parse in (parse_yaml, parse_json):
        try:
            values = parse(text, "job").values
        except InputError:
            continue
        assert json.dumps(values)
