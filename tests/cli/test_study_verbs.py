"""Verbs that need no server: policies, traces, simulations, plans and predictions, and how they refuse."""

from pathlib import Path

import pytest

from penstock.policies import POLICIES
from tests.cli.conftest import Penstock
from tests.tools import needs


def test_policies_are_listed_with_their_source(penstock: Penstock) -> None:
    listed = penstock("policies", "--json").json()
    assert set(POLICIES) <= {policy["policy"] for policy in listed}
    assert all(policy["summary"] for policy in listed)
    assert "elasticflow" in penstock("policies").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("simulate", "nowhere.csv"), "nowhere.csv"),
        (("simulate", "jobs.csv", "--policy", "fifoo"), "fifo"),
        (("simulate", "jobs.csv", "--cluster", "many"), "many"),
        (("simulate", "jobs.csv", "--slot", "0s"), "at least one second"),
        (("simulate", "jobs.csv", "--report", "page.txt"), ".html"),
        (("simulate", "jobs.csv", "--profiles", "nowhere"), "nowhere"),
        (("simulate", "odd.csv"), "no trace format we know"),
        (("trace", "describe", "nowhere.csv"), "nowhere.csv"),
        (("trace", "convert", "jobs.csv", "jobs.csv"), "jobs.csv"),
        (("trace", "nothing"), "No such command"),
        (("plan", "gpt-1.3bb", "--cluster", "1x8xA100-80GB", "--batch", "8"), "gpt-1.3b"),
        pytest.param(("predict", "resnet50", "--devices", "a,b"), "a,b", marks=needs.with_torch),
        pytest.param(("profile", "device", "--kind", "abacus"), "auto, cuda or cpu", marks=needs.with_torch),
        (("nothing",), "No such command"),
        (("ps", "--nothing"), "No such option"),
    ],
)
def test_bad_input_is_explained_and_writes_nothing(
    words: tuple[str, ...], expected: str, penstock: Penstock, tmp_path: Path
) -> None:
    (tmp_path / "jobs.csv").write_text("id,submitted,devices,duration,model,batch\na,0,1,60,resnet50,256\n")
    (tmp_path / "odd.csv").write_text("name,when\na,0\n")
    refused = penstock(*words)
    assert refused.code == 2, refused.out
    assert expected in refused.err
    assert "Traceback" not in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "odd.csv"]


def test_help_names_every_verb_once(penstock: Penstock) -> None:
    from penstock.cli.verbs import VERBS

    listed = penstock("--help").out
    assert all(f" {name} " in listed for name in VERBS)
    assert penstock().out == listed
    assert penstock("--version").out.startswith("penstock ")
