"""Every export to Megatron-LM against a record of its arguments, and against its own parser where that is at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.parallel.exports import megatron
from tests.parallel.trainers.written import (
    DENSE,
    LLAMA,
    NARROW,
    OTHERS,
    Case,
    arguments_of,
    checkout,
    environment_of,
    labelled,
    verdicts,
)

CASES = (*DENSE, *LLAMA, *NARROW, *OTHERS)
RECORD = json.loads(Path(__file__).with_name("megatron.json").read_text(encoding="utf-8"))
READERS = {"int": int, "float": float, "str": str}


def parsed(words: list[str]) -> dict[str, list[str]]:
    """Arguments with their values, as a parser groups them."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            assert word not in found, f"{word} twice"
            found[word] = values = []
        else:
            values.append(word)
    return found


@pytest.mark.parametrize("case", labelled(CASES))
def test_arguments_are_those_of_the_record(case: Case) -> None:
    for name, values in parsed(arguments_of(case.written(megatron))).items():
        known = RECORD["arguments"][name]
        assert known["type"] == "flag" or values, name
        assert known["type"] != "flag" or not values, name
        assert len(values) <= known.get("values", 1)
        for value in values:
            READERS[known["type"]](value)
            assert value in known.get("choices", [value]), (name, value)


@pytest.mark.parametrize("case", labelled(CASES))
def test_conditions_that_its_validation_asserts(case: Case) -> None:
    written = case.written(megatron)
    given = parsed(arguments_of(written))
    devices = case.planner().mesh.devices
    tp, pp = (int(given[f"--{name}-model-parallel-size"][0]) for name in ("tensor", "pipeline"))
    context = int(given.get("--context-parallel-size", ["1"])[0])
    batch, micro = int(given["--global-batch-size"][0]), int(given["--micro-batch-size"][0])
    assert devices % (tp * pp * context) == 0
    assert batch % (micro * (devices // (tp * pp * context))) == 0
    assert ("--sequence-parallel" in given) <= (tp > 1)
    connections = environment_of(written).get("CUDA_DEVICE_MAX_CONNECTIONS")
    if "--use-megatron-fsdp" in given:
        assert connections is None
        assert given["--ckpt-format"] == ["fsdp_dtensor"]
    elif tp > 1 or context > 1:
        assert connections == "1"
    if "--overlap-param-gather" in given:
        assert {"--overlap-grad-reduce", "--use-distributed-optimizer"} <= set(given)
    ways = {"--num-layers-per-virtual-pipeline-stage", "--pipeline-model-parallel-layout"} & set(given)
    assert len(ways) <= 1
    if not ways and "--num-layers" in given:
        assert int(given["--num-layers"][0]) % pp == 0


@pytest.mark.parametrize("case", labelled(tuple(case for case in CASES if case.layers)))
def test_layouts_hold_every_layer_once(case: Case) -> None:
    given = parsed(arguments_of(case.written(megatron)))
    (layout,) = given["--pipeline-model-parallel-layout"]
    assert set(layout) == set("Et|L")
    assert layout.count("t") == int(given["--num-layers"][0])
    assert (layout[0], layout[-1], layout.count("E"), layout.count("L")) == ("E", "L", 1, 1)
    stages = int(given["--pipeline-model-parallel-size"][0])
    assert len(layout.split("|")) == stages * case.interleave


def questions() -> list[dict[str, Any]]:
    asked = []
    for case in CASES:
        written, mesh = case.written(megatron), case.planner().mesh
        trial = written.launch.partition("$(cat megatron.args)")[2].split()
        asked.append(
            {"argv": [*arguments_of(written), *trial], "environment": environment_of(written),
             "world_size": mesh.devices, "capability": int(mesh.chip.generation)}
        )  # fmt: skip
    return asked


def test_its_own_parser_takes_every_export() -> None:
    """Parses, validates and builds the model's configuration, as its training scripts do before anything else."""
    answers = verdicts("megatron_parser", checkout("PENSTOCK_MEGATRON"), questions())
    labels = [case.label for case in CASES]
    assert not {label: problem for label, problem in zip(labels, answers, strict=True) if problem}
