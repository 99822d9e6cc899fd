"""Policies named with settings, in a file, or offered by an installed package."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from penstock.core import InputError, PluginError, UnknownNameError
from penstock.policies import (
    POLICIES,
    Parameter,
    PolicyReference,
    Srtf,
    Themis,
    Tiresias,
    parameters_of,
    policy_class,
    policy_named,
    split_policies,
)
from penstock.simulate import check_policies, known_policies

MINE = """
from typing import Annotated, ClassVar
from penstock.policies import Allocation, KindPolicy, KindView, Parameter, serve_in_order

class Mine(KindPolicy):
    name: ClassVar[str] = "mine"
    summary: ClassVar[str] = "newest first"

    def __init__(self, keen: Annotated[int, Parameter("how keen", least=0, most=9)] = 3) -> None:
        self.keen = keen

    def allocate(self, view: KindView) -> Allocation:
        return Allocation(serve_in_order(view, lambda: view.order(-view.submitted)))
"""


class Everything:
    def __init__(
        self,
        share: Annotated[float, Parameter("a share", least=0.0, most=1.0)] = 0.5,
        tries: Annotated[int, Parameter("tries", least=1)] = 3,
        eager: Annotated[bool, Parameter("whether")] = False,
        wait_s: Annotated[float, Parameter("wait", most=60.0)] = 10.0,
        order: Annotated[Literal["up", "down"], Parameter("which way")] = "up",
        inner: float = 1.0,
    ) -> None: ...


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("share", "0.25", 0.25),
        ("share", " 1 ", 1.0),
        ("tries", "7", 7),
        ("eager", "yes", True),
        ("eager", "False", False),
        ("wait_s", "0.5m", 30.0),
        ("order", "down", "down"),
    ],
)
def test_a_text_becomes_a_value_of_the_declared_type(name: str, text: str, value: Any) -> None:
    declared = {parameter.name: parameter for parameter in parameters_of(Everything)}
    read = declared[name].read(text, "everything")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("share", "1.5", "a number, 0 to 1"),
        ("share", "nan", "a number, 0 to 1"),
        ("tries", "0", "a whole number, 1 or more"),
        ("tries", "2.5", "a whole number, 1 or more"),
        ("eager", "perhaps", "true or false"),
        ("wait_s", "2m", "a duration, at most 60"),
        ("wait_s", "soon", "a duration, at most 60"),
        ("order", "sideways", "up or down"),
    ],
)
def test_another_value_is_refused_with_what_is_allowed(name: str, text: str, allowed: str) -> None:
    declared = {parameter.name: parameter for parameter in parameters_of(Everything)}
    with pytest.raises(InputError, match=f"{name}={text}.*Allowed: {allowed}"):
        declared[name].read(text, "everything")


def test_only_what_is_declared_can_be_set() -> None:
    assert "inner" not in {parameter.name for parameter in parameters_of(Everything)}
    with pytest.raises(UnknownNameError, match=r"'limits'.*Allowed: promote"):
        policy_named("tiresias:limits=3")
    with pytest.raises(UnknownNameError, match="it has none"):
        policy_named("fifo:speed=3")


def test_settings_reach_the_policy() -> None:
    srtf, themis, tiresias = map(policy_named, ("srtf:order=device-time", "themis:lease_s=10m", "tiresias:promote=2"))
    assert isinstance(srtf, Srtf)
    assert srtf.order == "device-time"
    assert isinstance(themis, Themis)
    assert themis.lease_s == 600
    assert isinstance(tiresias, Tiresias)
    assert tiresias.promote == 2


@pytest.mark.parametrize("text", ["srtf:order", "srtf:order=", "srtf:=time", "srtf:order=time,order=time", "srtf:a=b,"])
def test_settings_that_are_no_settings_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        policy_named(text)


def test_commas_stand_between_policies_and_between_settings() -> None:
    text = "fifo, mine.py:Mine:a=1,b=2 ,a.b:C,themis:lease_s=5m,fifo,"
    assert split_policies(text) == ["fifo", "mine.py:Mine:a=1,b=2", "a.b:C", "themis:lease_s=5m"]
    assert PolicyReference.parse("mine.py:Mine:a=1,b=2").given == (("a", "1"), ("b", "2"))


def test_every_policy_of_ours_is_made_of_its_declared_defaults() -> None:
    for name, policy in POLICIES.items():
        for parameter in parameters_of(policy):
            assert parameter.meaning
            assert parameter.read(str(parameter.default), name) == parameter.default


def test_a_policy_in_a_file_has_parameters_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    check_policies([f"{file}:Mine"])
    assert policy_named(f"{file}:Mine:keen=7").keen == 7  # type: ignore[union-attr]
    with pytest.raises(InputError, match="keen=10"):
        check_policies([f"{file}:Mine:keen=10"])


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Install a package that offers a policy, as pip would."""
    (folder / "offered_policy.py").write_text(MINE)
    information = folder / "offering-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[penstock.policies]\nnewest = {target}\n")
    monkeypatch.syspath_prepend(str(folder))


def test_an_installed_package_offers_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(tmp_path, monkeypatch, "offered_policy:Mine")
    assert policy_class("newest").name == "mine"
    check_policies(["newest:keen=1"])
    listed = known_policies()["newest"]
    assert listed.summary == "newest first"
    assert [parameter.name for parameter in listed.parameters] == ["keen"]


def test_an_offer_that_cannot_be_loaded_is_listed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, "nothing_of_that_name:Mine")
    assert "No module named" in known_policies()["newest"].summary
    with pytest.raises(PluginError, match="nothing_of_that_name"):
        check_policies(["newest"])
