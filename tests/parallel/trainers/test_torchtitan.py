"""Every export to torchtitan against a record of its classes, and against the classes where they are at hand."""

import ast
import json
from pathlib import Path

import pytest

from penstock.core import PlanError
from penstock.parallel.exports import torchtitan
from penstock.parallel.exports.torchtitan import FLAVORS
from tests.parallel.trainers.written import LLAMA, NARROW, Case, checkout, labelled, verdicts

RECORD = json.loads(Path(__file__).with_name("torchtitan.json").read_text(encoding="utf-8"))
CASES = (*LLAMA, *NARROW)
READERS = {"int": int, "bool": bool, "str": str, "list": list}


def fields_of(text: str) -> dict[str, dict[str, object]]:
    """The arguments of each call in the module's return statement, by the class or field they belong to."""
    (function,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    (returned,) = [node for node in function.body if isinstance(node, ast.Return)]
    assert isinstance(returned.value, ast.Call)
    found: dict[str, dict[str, object]] = {}
    for keyword in returned.value.keywords:
        inside = keyword.value.keywords if isinstance(keyword.value, ast.Call) else []
        found[str(keyword.arg)] = {str(one.arg): _value(one.value) for one in inside}
    return found


def _value(node: ast.expr) -> object:
    """A plain value; of a list of calls the arguments of each."""
    if isinstance(node, ast.List) and any(isinstance(one, ast.Call) for one in node.elts):
        calls = [one for one in node.elts if isinstance(one, ast.Call)]
        return [{str(each.arg): ast.literal_eval(each.value) for each in one.keywords} for one in calls]
    return ast.literal_eval(node)


@pytest.mark.parametrize("case", labelled(CASES))
def test_fields_are_those_of_the_record(case: Case) -> None:
    found = fields_of(case.written(torchtitan).text)
    narrow = case.precision == "fp8"
    assert set(found) == {"model_spec", "training", "parallelism", "activation_checkpoint"} | (
        {"compile"} if narrow else set()
    )
    converters = found["model_spec"].get("converters", [])
    assert isinstance(converters, list)
    assert len(converters) == narrow
    given = {**found, "float8": converters[0] if narrow else {}, "compile": found.get("compile", {})}
    for section in ("training", "parallelism", "float8", "compile"):
        for name, value in given[section].items():
            known = RECORD[section][name]
            assert isinstance(value, READERS[known["type"]]), (name, value)
            assert value in known.get("choices", [value]), (name, value)


@pytest.mark.parametrize("case", labelled(CASES))
def test_degrees_fill_the_cluster_and_tokens_the_step(case: Case) -> None:
    found = fields_of(case.written(torchtitan).text)
    degrees, training = found["parallelism"], found["training"]
    world = 1
    for name in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "context_parallel",
                 "pipeline_parallel"):  # fmt: skip
        world *= int(str(degrees[f"{name}_degree"]))
    assert world == case.planner().mesh.devices
    replicas = int(str(degrees["data_parallel_replicate_degree"])) * int(str(degrees["data_parallel_shard_degree"]))
    batches = int(str(degrees.get("num_pp_microbatches", 1)))
    once = int(str(training["num_tokens_per_microbatch_per_dp_rank"])) * replicas * batches
    assert int(str(training["num_tokens_per_train_step"])) % once == 0
    assert training["disable_cuda_graphs"] is (case.pp > 1)


def test_flavors_are_those_of_the_record() -> None:
    recorded = {tuple(sizes): flavor for flavor, sizes in RECORD["flavors"].items()}
    assert {sizes: flavor for sizes, (flavor, _) in FLAVORS.items()} == recorded
    assert {base for _, base in FLAVORS.values()} <= set(RECORD["configurations"])


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case(model="gpt-6.7b", pp=4, tp=2), "no flavor of gpt-6.7b"),
        (Case(model="llama-13b", pp=4, tp=4), "no flavor of llama-13b"),
        (Case(model="llama-70b", cluster="8x8xH200", pp=4, tp=8), "no flavor of llama-70b"),
        (Case(model="llama-8b", cluster="4x8xV100-32GB", pp=4, tp=4), "bfloat16"),
        (Case(model="llama-1b", cluster="8xA100-80GB", pp=2), "ties the embeddings"),
    ],
)
def test_what_it_has_not_is_refused(case: Case, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        case.written(torchtitan)


def test_its_own_classes_take_every_export() -> None:
    source = checkout("PENSTOCK_TORCHTITAN", "tyro", "spmd_types", "einops", "tokenizers", "torchdata")
    asked = [{"text": case.written(torchtitan).text, "world_size": case.planner().mesh.devices} for case in CASES]
    answers = verdicts("torchtitan_config", source, asked)
    labels = [case.label for case in CASES]
    assert not {label: problem for label, problem in zip(labels, answers, strict=True) if problem}
