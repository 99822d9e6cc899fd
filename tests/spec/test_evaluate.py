"""``evaluate:`` in a job file: what is understood, what is refused, and the job file of an evaluation."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.core import EvaluationSet, InputError
from penstock.spec import dump_yaml, evaluation_spec, json_schema, load_job_file, parse_job, parse_yaml, steps_between
from tests.spec.test_schema import fits

GOOD = {"script": "train.py", "work": "30 epochs", "steps_per_epoch": 50, "name": "night"}


def evaluating(evaluate: Any, **more: Any) -> Any:
    return parse_job({**GOOD, "evaluate": evaluate, **more})


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ("eval.py", ("{python}", "eval.py")),
        ("python eval.py", ("python", "eval.py")),
        ({"script": "eval.py", "args": ["--at", "{step}", "--of", "{checkpoint}"]},
         ("{python}", "eval.py", "--at", "7", "--of", "/a b/step-7")),
        ({"command": "lm_eval --model {checkpoint} --out {step}.json"},
         ("lm_eval", "--model", "/a b/step-7", "--out", "7.json")),
        ({"command": ["lm_eval", "--model={checkpoint}"]}, ("lm_eval", "--model=/a b/step-7")),
    ],
)  # fmt: skip
def test_a_script_or_a_command_is_told_the_checkpoint(short: Any, words: tuple[str, ...]) -> None:
    spec = evaluation_spec(evaluating(short), step=7, checkpoint="/a b/step-7")
    assert parse_job(spec).command_line("{python}") == words


@pytest.mark.parametrize(
    ("every", "steps", "seconds"),
    [("each checkpoint", None, None), ("checkpoint", None, None), ("1_000 steps", 1000, None),
     ("2 epochs", 100, None), ("30m", None, 1800.0), ("1h30m", None, 5400.0)],
)  # fmt: skip
def test_how_often_is_said_in_steps_epochs_or_time(every: str, steps: float | None, seconds: float | None) -> None:
    job = evaluating({"script": "eval.py", "every": every})
    assert (steps_between(job), job.evaluate.every.seconds) == (steps, seconds)
    again = parse_job(parse_yaml(dump_yaml(job), "again").values)
    assert again.evaluate == job.evaluate


def test_data_sets_have_sizes_or_are_evaluated_whole() -> None:
    sized = evaluating({"script": "e.py", "sets": {"arc": "1k", "mmlu": None, "code": {"samples": 164}}}).evaluate
    assert sized.data_sets == (
        EvaluationSet(name="arc", samples=1000), EvaluationSet(name="mmlu"), EvaluationSet(name="code", samples=164),
    )  # fmt: skip
    assert evaluating({"script": "e.py", "sets": ["arc", "mmlu"]}).evaluate.sets == {"arc": None, "mmlu": None}


def test_which_way_a_metric_improves_follows_from_its_name_or_from_the_file() -> None:
    part = evaluating({"script": "e.py", "better": {"fluency": "higher", "arc/acc": "lower"}}).evaluate
    names = ("arc/accuracy", "arc/loss", "arc/fluency", "arc/acc", "mmlu/acc", "arc/tokens", "loss")
    assert [part.rises(name) for name in names] == [True, False, True, False, True, None, False]


def test_an_evaluation_is_a_job_beside_the_first_with_the_same_software_around_it() -> None:
    job = evaluating(
        {"script": "eval.py", "sets": {"arc": 100, "all": None}, "metric": "python score.py", "devices": "1..4"},
        environment={"requirements": ["numpy"], "env": {"A": "1"}, "working_dir": "/work"}, secrets=["HF_TOKEN"],
        limits={"cpus": 2}, tenant="vision", kinds=["cpu"], deadline="6h", priority=70, retries=5,
    )  # fmt: skip
    spec = evaluation_spec(job, step=1200, checkpoint="/c")
    made = parse_job(spec)
    assert (made.name, made.steps, made.tenant, made.kinds) == ("night-eval-1200", 101, "vision", ("cpu",))
    assert (made.environment, made.limits, made.secrets) == (job.environment, job.limits, job.secrets)
    assert (made.deadline, made.best_effort, made.priority, made.resumable) == (None, True, 0, True)
    assert made.evaluate is None
    assert (made.devices.min, made.devices.max) == (1, 4)
    long = evaluation_spec(evaluating("e.py", name="n" * 63), step=10**9, checkpoint="/c")
    assert len(long["name"]) == 63
    assert parse_job(long).name.endswith("-eval-1000000000")
    own = evaluation_spec(evaluating({"script": "e.py", "kinds": ["cpu"], "priority": 9}), step=1, checkpoint="/c")
    assert (own["kinds"], own["priority"]) == (["cpu"], 9)
    with pytest.raises(InputError, match="evaluates nothing"):
        evaluation_spec(parse_job(GOOD), step=1, checkpoint="/c")


@pytest.mark.parametrize(
    ("evaluate", "complaint"),
    [
        ({}, "evaluate.command: neither command nor script"),
        ({"script": "e.py", "command": "e"}, "evaluate.command: both command and script"),
        ({"command": "e", "args": ["x"]}, "evaluate.args: args without a script"),
        ({"script": "e.py", "every": 10}, "evaluate.every: 10 does not say how often"),
        ({"script": "e.py", "every": "2 parsecs"}, "evaluate.every: '2 parsecs' does not say how often"),
        ({"script": "e.py", "every": "0 steps"}, "evaluate.every: '0 steps' does not say how often"),
        ({"script": "e.py", "sets": "arc"}, "evaluate.sets: 'arc' are not data sets"),
        ({"script": "e.py", "sets": {"a/b": 3}}, "evaluate.sets: 'a/b' is not the name of a data set"),
        ({"script": "e.py", "sets": {"arc": 0}}, "evaluate.sets: 0 is not a count"),
        ({"script": "e.py", "sets": {"arc": {"size": 1}}}, "is not the size of a data set"),
        ({"script": "e.py", "sets": ["arc", "arc"]}, "evaluate.sets: a data set that is named twice"),
        ({"script": "e.py", "sets": [f"s{n}" for n in range(151)]}, "evaluate.sets: 151 data sets"),
        ({"script": "e.py", "metric": "m"}, "evaluate.metric: a metric step without data sets"),
        ({"script": "e.py", "metric_per": "shard"}, "evaluate.metric_per: metric_per without metric"),
        ({"script": "e.py", "metric_per": "job"}, "evaluate.metric_per: unknown part for a metric step 'job'"),
        ({"script": "e.py", "better": {"acc": "more"}}, "evaluate.better: unknown direction 'more'"),
        ({"script": "e.py", "better": {"a b": "lower"}}, "evaluate.better: 'a b' is not the name of a metric"),
        ({"script": "e.py", "better": ["acc"]}, "evaluate.better: .* names no metrics"),
        ({"script": "e.py", "set": {}}, "unknown key in evaluate 'set'.*Did you mean 'sets'"),
        ({"script": "e.py", "devices": "4..2"}, "evaluate.devices: at least 4 and at most 2"),
        ({"script": "e.py", "priority": 101}, "evaluate.priority: 101 is not a priority"),
        (7, "evaluate: 7 is not a mapping"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_key(evaluate: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        evaluating(evaluate)


def test_epochs_need_a_length_and_scripts_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"evaluate\.every: every 2 epochs cannot be counted in steps"):
        parse_job({"script": "t.py", "work": 5, "evaluate": {"script": "e.py", "every": "2 epochs"}})
    (tmp_path / "t.py").touch()
    (tmp_path / "job.yaml").write_text("script: t.py\nwork: 5\nevaluate:\n  script: e.py\n")
    with pytest.raises(InputError, match=r"line 4: evaluate\.script: there is no file .*e\.py"):
        load_job_file(tmp_path / "job.yaml")
    (tmp_path / "e.py").touch()
    assert load_job_file(tmp_path / "job.yaml").evaluate is not None


@pytest.mark.parametrize(
    "evaluate",
    ["eval.py", {"command": ["a"], "every": "30m", "sets": {"a": 1, "b": None, "c": "1k"}, "better": {"x": "lower"}},
     {"script": "e.py", "sets": ["a"], "metric": "m", "metric_per": "shard", "devices": "1..2", "priority": 3}],
)  # fmt: skip
def test_editors_accept_what_is_accepted(evaluate: Any) -> None:
    schema = json_schema()
    assert evaluating(evaluate).evaluate is not None
    assert fits(evaluate, schema["properties"]["evaluate"], schema)


def test_the_job_files_of_the_guide_are_job_files() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert parse_job(parse_yaml(block, "the guide").values).evaluate is not None


@pytest.mark.parametrize(
    ("given", "by_shard"), [({}, False), ({"metric_per": "set"}, False), ({"metric_per": "shard"}, True)]
)
def test_a_metric_step_is_for_a_data_set_unless_it_is_for_each_shard(given: dict[str, str], by_shard: bool) -> None:
    assert evaluating({"script": "e.py", "sets": ["a"], "metric": "m", **given}).evaluate.metric_by_shard is by_shard
