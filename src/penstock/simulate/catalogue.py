"""Everything that can be simulated under a name: our policies, those of installed packages, and replicas."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import InputError, PluginError, UnknownNameError, is_plugin
from penstock.policies import (
    POLICIES,
    DeclaredParameter,
    PolicyReference,
    offered_policies,
    parameters_of,
    policy_class,
    policy_named,
)
from penstock.simulate.replicas import REPLICAS


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """One line of the list of policies."""

    summary: str
    source: str
    parameters: tuple[DeclaredParameter, ...] = ()


def known_policies() -> dict[str, KnownPolicy]:
    """Every name that can be simulated; what a package offers and cannot be loaded is listed with the reason."""
    known = {name: _described(name) for name in (*POLICIES, *offered_policies())}
    return known | {name: KnownPolicy(*told) for name, told in REPLICAS.items() if name not in known}


def check_policies(names: Sequence[str]) -> None:
    """Refuse unknown names, parameters and values before anything is read or run."""
    for name in names:
        plain = PolicyReference.parse(name)
        if plain.name in REPLICAS and not plain.given:
            continue
        if plain.name not in POLICIES and not is_plugin(plain.name) and plain.name not in offered_policies():
            raise UnknownNameError.of("policy", plain.name, known_policies(), "`penstock policies` lists them")
        policy_named(name)


def refuse_replica(policy: str) -> None:
    """A policy that a server runs is no replica of somebody else's simulator."""
    name = PolicyReference.parse(policy).name
    if name in REPLICAS:
        raise InputError(
            f"{name!r} exists in simulations only: it replays a public simulator", ", ".join(sorted(POLICIES)),
            f"Try {name.removesuffix('-artifact')!r}",
        )  # fmt: skip


def label_of(name: str) -> str:
    """How results name a policy: its own name, and what was set."""
    reference = PolicyReference.parse(name)
    if reference.name in REPLICAS:
        return reference.name
    settings = ",".join(f"{key}={value}" for key, value in reference.given)
    own = policy_class(reference.name).name
    return f"{own}:{settings}" if settings else own


def _described(name: str) -> KnownPolicy:
    try:
        policy = policy_class(name)
    except PluginError as problem:
        return KnownPolicy(problem.given, "an installed package")
    return KnownPolicy(policy.summary, policy.paper, parameters_of(policy))
