"""``nodes`` in a job file: every way to say it, and what cannot be meant."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import ANYWHERE, InputError, NodeChoice
from penstock.spec import from_flags, job, parse_job, read_batch_script, to_mapping


def choice(given: Any) -> NodeChoice:
    file = job(script="train.py", work=10, nodes=given)
    assert parse_job(to_mapping(file)).node_choice == file.node_choice, "kept as it was said"
    return file.node_choice


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, ANYWHERE),
        (["a", "b"], NodeChoice(only=("a", "b"))),
        ("a, b", NodeChoice(only=("a", "b"))),
        ({"only": "a"}, NodeChoice(only=("a",))),
        ({"prefer": ["a"]}, NodeChoice(prefer=("a",))),
        ({"avoid": ["a", "a"]}, NodeChoice(avoid=("a",))),
        ({"only": ["a", "b"], "prefer": ["b"]}, NodeChoice(only=("a", "b"), prefer=("b",))),
    ],
)
def test_lists_and_mappings_are_understood(given: Any, meant: NodeChoice) -> None:
    assert choice(given) == meant


def test_a_list_is_written_as_a_list() -> None:
    assert to_mapping(job(script="train.py", work=10, nodes={"only": ["a"]}))["nodes"] == ["a"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "an empty list of nodes. Allowed: the name of one node or more. Try [gpu-17, gpu-18]"),
        ({"prefer": []}, "nodes.prefer: an empty list of nodes"),
        ({}, "nodes without any. Allowed: only, avoid or prefer"),
        (
            {"only": ["a"], "avoid": ["a"]},
            "'a' is to be used and to be avoided. Allowed: every node in one of",
        ),
        ({"only": ["a"], "prefer": ["b"]}, "'b' is preferred, but the job runs only on a. Allowed: preferred nodes"),
        ({"exclude": ["a"]}, "unknown key in nodes 'exclude'. Allowed: avoid, only, prefer"),
        ([" "], "' ' is not usable text"),
        (7, "7 is not a list"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(InputError) as problem:
        choice(given)
    assert complaint in str(problem.value)


@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        ({"nodes": ["x"]}, NodeChoice(only=("x",))),
        ({"exclude": ["c"]}, NodeChoice(only=("a", "b"), avoid=("c",))),
        ({"nodes": ["x", "y"], "exclude": ["c"]}, NodeChoice(only=("x", "y"), avoid=("c",))),
        ({}, NodeChoice(only=("a", "b"))),
    ],
)
def test_flags_come_over_what_the_file_says(tmp_path: Path, flags: Any, meant: NodeChoice) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text("script: train.py\nwork: 10 steps\nnodes: [a, b]\n")
    assert from_flags(file=tmp_path / "job.yaml", **flags).node_choice == meant


def test_a_flag_against_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text("script: train.py\nwork: 10 steps\nnodes: [a, b]\n")
    with pytest.raises(InputError, match="'a' is to be used and to be avoided"):
        from_flags(file=tmp_path / "job.yaml", exclude=["a"])


def test_a_batch_script_names_nodes_as_slurm_does(tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(
        "#!/bin/sh\n#SBATCH --nodelist=gpu-[08-10,17],big -x gpu-09\n#PENSTOCK work: 9 steps\nsrun python train.py\n"
    )
    (tmp_path / "train.py").touch()
    with pytest.raises(InputError, match="'gpu-09' is to be used and to be avoided"):
        from_flags(file=script)
    script.write_text(script.read_text().replace("gpu-09", "gpu-11"))
    meant = NodeChoice(only=("gpu-08", "gpu-09", "gpu-10", "gpu-17", "big"), avoid=("gpu-11",))
    assert from_flags(file=script).node_choice == meant
    assert read_batch_script(script).ignored == ()


@pytest.mark.parametrize("hosts", ["gpu-[1-", "gpu-[a-b]", "gpu-1]", "gpu-[1-99999]"])
def test_hosts_that_are_none_are_refused(tmp_path: Path, hosts: str) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(f"#!/bin/sh\n#SBATCH --nodelist={hosts}\n#PENSTOCK work: 9 steps\nsrun python train.py\n")
    with pytest.raises(InputError, match="hosts"):
        from_flags(file=script)
