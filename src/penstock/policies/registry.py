"""Policies by name: ours, those of installed packages, and those in a file of your own, each with its settings.

A name is written ``NAME`` or ``NAME:key=value,key=value``. ``NAME`` is one of ours, one that an installed package
offers under the entry point group ``penstock.policies``, ``module:Class``, or ``path/to/file.py:Class``.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from penstock.core import InputError, PluginError, UnknownNameError, is_plugin, load_plugin
from penstock.policies.base import AnyPolicy, KindPolicy, Policy
from penstock.policies.deadline import DeadlinePolicy
from penstock.policies.fair import Fair
from penstock.policies.parameters import settings_of
from penstock.policies.published.afs import Afs
from penstock.policies.published.astraea import Astraea
from penstock.policies.published.chronus import Chronus
from penstock.policies.published.dynamic_quota import DynamicQuota
from penstock.policies.published.edf import Edf, EdfAdmission
from penstock.policies.published.elasticflow import ElasticFlow
from penstock.policies.published.fifo import Fifo
from penstock.policies.published.gandiva import Gandiva
from penstock.policies.published.gavel import Gavel
from penstock.policies.published.genie import Genie
from penstock.policies.published.lucid import Lucid
from penstock.policies.published.optimus import Optimus
from penstock.policies.published.pollux import Pollux
from penstock.policies.published.sia import Sia
from penstock.policies.published.srtf import Srtf
from penstock.policies.published.themis import Themis
from penstock.policies.published.three_sigma import ThreeSigma
from penstock.policies.published.tiresias import Tiresias
from penstock.policies.published.yarn_cs import YarnCapacity
from penstock.policies.unified import Unified

ENTRY_POINTS = "penstock.policies"
"""The group under which an installed package offers policies of its own."""

POLICIES: dict[str, type[AnyPolicy]] = {
    policy.name: policy
    for policy in (
        Astraea,
        Chronus,
        Fair,
        Unified,
        DeadlinePolicy,
        ElasticFlow,
        Edf,
        EdfAdmission,
        Fifo,
        Afs,
        DynamicQuota,
        Gandiva,
        Gavel,
        Genie,
        Lucid,
        Optimus,
        Pollux,
        Sia,
        Srtf,
        Themis,
        ThreeSigma,
        Tiresias,
        YarnCapacity,
    )
}
"""Every policy of ours by name."""


@dataclass(frozen=True, slots=True)
class PolicyReference:
    """What a text asks for: a name, and texts to set parameters to."""

    name: str
    given: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "PolicyReference":
        """
        >>> PolicyReference.parse("srtf:order=device-time")
        PolicyReference(name='srtf', given=(('order', 'device-time'),))
        >>> PolicyReference.parse("mine.py:Mine")
        PolicyReference(name='mine.py:Mine', given=())
        """
        name, colon, settings = text.strip().rpartition(":")
        if not colon or "=" not in settings:
            return cls(text.strip())
        given: dict[str, str] = {}
        for part in settings.split(","):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not (equals and key and value) or key in given:
                raise InputError(f"{part!r} in the policy {text!r}", "key=value, every key once", _GUIDE)
            given[key] = value
        return cls(name, tuple(given.items()))


_GUIDE = "Try srtf:order=device-time; `penstock policies` lists what can be set"


def split_policies(text: str) -> list[str]:
    """The policies in a list with commas, in which settings have commas too; every one once.

    >>> split_policies("fifo, themis:lease_s=600, deadline")
    ['fifo', 'themis:lease_s=600', 'deadline']
    """
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        key = part.partition("=")[0]
        if "=" in part and ":" not in key and found and ":" in found[-1]:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return list(dict.fromkeys(found))


def policy_class(name: str) -> type[AnyPolicy]:
    """The policy of that name, without settings."""
    if name in POLICIES:
        return POLICIES[name]
    if is_plugin(name):
        return _checked(name, load_plugin("policy", name))
    offered = offered_policies()
    if name in offered:
        return _load(offered[name])
    known = {**POLICIES, **offered}
    raise UnknownNameError.of("policy", name, known, "`penstock policies` lists them; your own is file.py:Class")


def policy_named(name: str) -> AnyPolicy:
    """A policy, with its default settings where the name sets nothing else; one of your own is named ``module:Class``
    or ``file.py:Class``."""
    reference = PolicyReference.parse(name)
    policy = policy_class(reference.name)
    return policy(**settings_of(reference.name, policy, dict(reference.given)))


def require_installed(name: str) -> None:
    """Refuse a policy that is code somewhere on a disk: who may choose among policies may not bring code along."""
    plain = PolicyReference.parse(name).name
    if plain not in POLICIES and is_plugin(plain):
        raise InputError(
            f"the policy {plain!r} is code of somebody's own", "one of ours, or one that an installed package offers",
            "Name it in the server's configuration, or replay offline: penstock whatif --data-dir",
        )  # fmt: skip


def offered_policies() -> dict[str, EntryPoint]:
    """What installed packages offer; nothing of it is imported yet."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in POLICIES}


def _load(point: EntryPoint) -> type[AnyPolicy]:
    try:
        made = point.load()
    except Exception as problem:
        raise PluginError(
            f"the policy {point.name!r} ({point.value}) cannot be loaded: {type(problem).__name__}: {problem}",
            "an entry point that Python can import", "Update or remove the package that offers it",
        ) from problem  # fmt: skip
    return _checked(point.name, made)


def _checked(name: str, made: object) -> type[AnyPolicy]:
    if not (isinstance(made, type) and issubclass(made, Policy | KindPolicy)):
        raise PluginError(f"{name!r} is not a policy", "a class derived from penstock.policies.Policy or KindPolicy")
    return made
