"""Who gets how many devices, and when: one file per policy."""

from penstock.policies.afs import Afs
from penstock.policies.arrivals import COST_CLASSES, ArrivalStatistics
from penstock.policies.base import Admission, Allocation, AnyPolicy, Assignment, KindPolicy, NamedPolicy, Plans, Policy
from penstock.policies.chronus import Chronus
from penstock.policies.columns import PLAN_STEPS, VALUE_STEPS, Bools, Floats, Ints, Standing
from penstock.policies.deadline import DeadlinePolicy
from penstock.policies.dynamic_quota import DynamicQuota
from penstock.policies.edf import Edf, EdfAdmission
from penstock.policies.elasticflow import ElasticFlow
from penstock.policies.fifo import Fifo
from penstock.policies.gandiva import Gandiva
from penstock.policies.genie import Genie
from penstock.policies.greedy import serve_in_order
from penstock.policies.job_columns import ColumnSource
from penstock.policies.kind_options import OPTION_COLUMNS, KindOptions
from penstock.policies.kind_view import KindView
from penstock.policies.lasting import STINT_COSTS, allocate_lasting
from penstock.policies.lucid import Lucid
from penstock.policies.measure_first import MeasureFirst, patience, weakest_source
from penstock.policies.optimus import Optimus
from penstock.policies.parameters import DeclaredParameter, Parameter, parameters_of, settings_of, show_value
from penstock.policies.per_kind import PerKind
from penstock.policies.registry import (
    ENTRY_POINTS,
    POLICIES,
    PolicyReference,
    offered_policies,
    policy_class,
    policy_named,
    require_installed,
    split_policies,
)
from penstock.policies.srtf import Srtf
from penstock.policies.tenant_bounds import TenantBounds
from penstock.policies.tenant_table import TenantTable
from penstock.policies.themis import Themis
from penstock.policies.three_sigma import ThreeSigma
from penstock.policies.tiresias import Tiresias
from penstock.policies.undisturbed import admit_undisturbed, allocate_undisturbed
from penstock.policies.view import KindConditions, View
from penstock.policies.within_bounds import WithinBounds
from penstock.policies.yarn_cs import YarnCapacity

__all__ = [
    "COST_CLASSES",
    "ENTRY_POINTS",
    "OPTION_COLUMNS",
    "PLAN_STEPS",
    "POLICIES",
    "STINT_COSTS",
    "VALUE_STEPS",
    "Admission",
    "Afs",
    "Allocation",
    "AnyPolicy",
    "ArrivalStatistics",
    "Assignment",
    "Bools",
    "Chronus",
    "ColumnSource",
    "DeadlinePolicy",
    "DeclaredParameter",
    "DynamicQuota",
    "Edf",
    "EdfAdmission",
    "ElasticFlow",
    "Fifo",
    "Floats",
    "Gandiva",
    "Genie",
    "Ints",
    "KindConditions",
    "KindOptions",
    "KindPolicy",
    "KindView",
    "Lucid",
    "MeasureFirst",
    "NamedPolicy",
    "Optimus",
    "Parameter",
    "PerKind",
    "Plans",
    "Policy",
    "PolicyReference",
    "Srtf",
    "Standing",
    "TenantBounds",
    "TenantTable",
    "Themis",
    "ThreeSigma",
    "Tiresias",
    "View",
    "WithinBounds",
    "YarnCapacity",
    "admit_undisturbed",
    "allocate_lasting",
    "allocate_undisturbed",
    "offered_policies",
    "parameters_of",
    "patience",
    "policy_class",
    "policy_named",
    "require_installed",
    "serve_in_order",
    "settings_of",
    "show_value",
    "split_policies",
    "weakest_source",
]
