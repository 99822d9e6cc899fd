"""Which policies a server can run: those that decide; replicas of other people's simulators do not."""

from pathlib import Path

import pytest

from penstock.core import InputError
from penstock.policies import POLICIES
from penstock.serve import Config
from penstock.serve.warm_up import load_loops
from penstock.simulate import REPLICAS, known_policies


@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_is_refused_with_the_policy_to_take_instead(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Config(data_dir=tmp_path, policy=name)
    assert "exists in simulations only" in str(caught.value)
    assert f"Try '{name.removesuffix('-artifact')}'" in str(caught.value)
    assert name.removesuffix("-artifact") in POLICIES


def test_everything_that_can_be_simulated_is_live_or_a_replica() -> None:
    assert set(known_policies()) == set(POLICIES) | set(REPLICAS)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_warmed_up(name: str) -> None:
    load_loops(name)


def test_a_live_policy_may_be_set_by_name(tmp_path: Path) -> None:
    Config(data_dir=tmp_path, policy="srtf:order=device-time")
    load_loops("srtf:order=device-time")
    with pytest.raises(InputError, match="Did you mean 'order'"):
        Config(data_dir=tmp_path, policy="srtf:ordr=device-time")
    with pytest.raises(InputError, match=r"order=size.*Allowed: time or device-time"):
        Config(data_dir=tmp_path, policy="srtf:order=size")
