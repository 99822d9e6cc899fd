"""Who gets how many devices, and when: one file per policy."""

from penstock.core import PluginError, UnknownNameError, is_plugin, load_plugin
from penstock.policies.base import Admission, Allocation, AnyPolicy, Assignment, KindPolicy, NamedPolicy, Plans, Policy
from penstock.policies.columns import PLAN_STEPS, Bools, Floats, Ints, Standing
from penstock.policies.deadline import DeadlinePolicy
from penstock.policies.edf import Edf, EdfAdmission
from penstock.policies.elasticflow import ElasticFlow
from penstock.policies.fifo import Fifo
from penstock.policies.gandiva import Gandiva
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.measure_first import MeasureFirst, patience, weakest_source
from penstock.policies.per_kind import PerKind
from penstock.policies.srtf import Srtf
from penstock.policies.themis import Themis
from penstock.policies.tiresias import Tiresias
from penstock.policies.view import KindConditions, KindOptions, TenantTable, View

POLICIES: dict[str, type[AnyPolicy]] = {
    policy.name: policy
    for policy in (
        DeadlinePolicy,
        ElasticFlow,
        Edf,
        EdfAdmission,
        Fifo,
        Gandiva,
        Srtf,
        Themis,
        Tiresias,
    )
}
"""Every policy by name."""


def policy_named(name: str) -> AnyPolicy:
    """A policy with its default settings; one of your own is named ``module:Class``."""
    if is_plugin(name):
        return _your_own(name)
    try:
        return POLICIES[name]()
    except KeyError:
        raise UnknownNameError.of("policy", name, POLICIES, "`penstock policies` lists them") from None


def _your_own(name: str) -> AnyPolicy:
    made = load_plugin("policy", name)
    if not (isinstance(made, type) and issubclass(made, Policy | KindPolicy)):
        raise PluginError(f"{name!r} is not a policy", "a class derived from penstock.policies.Policy or KindPolicy")
    return made()


__all__ = [
    "PLAN_STEPS",
    "POLICIES",
    "Admission",
    "Allocation",
    "AnyPolicy",
    "Assignment",
    "Bools",
    "DeadlinePolicy",
    "Edf",
    "EdfAdmission",
    "ElasticFlow",
    "Fifo",
    "Floats",
    "Gandiva",
    "Ints",
    "KindConditions",
    "KindOptions",
    "KindPolicy",
    "KindView",
    "MeasureFirst",
    "NamedPolicy",
    "PerKind",
    "Plans",
    "Policy",
    "Srtf",
    "Standing",
    "TenantTable",
    "Themis",
    "Tiresias",
    "View",
    "patience",
    "policy_named",
    "serve_in_order",
    "weakest_source",
]
