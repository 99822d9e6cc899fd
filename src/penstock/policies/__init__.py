"""Who gets how many devices, and when: one file per policy."""

from penstock.policies.admission import admit_singly, no_deadline, promised, turned_down
from penstock.policies.arrivals import COST_CLASSES, ArrivalStatistics
from penstock.policies.base import (
    Admission,
    Allocation,
    AnyPolicy,
    Assignment,
    KindPolicy,
    NamedPolicy,
    PlannedQuotes,
    Plans,
    Policy,
)
from penstock.policies.columns import MOST_SUSPENSIONS, PLAN_STEPS, VALUE_STEPS, Bools, Floats, Ints, Standing
from penstock.policies.deadline import DeadlinePolicy, asked_again
from penstock.policies.greedy import by_priority, serve_in_order, start_in_order, still_held, take_in_order
from penstock.policies.guards.confined import RowCrowd, admit_confined, allocate_confined, safe_end
from penstock.policies.guards.lasting import STINT_COSTS, allocate_lasting
from penstock.policies.guards.tenant_bounds import TenantBounds
from penstock.policies.guards.undisturbed import admit_undisturbed, allocate_undisturbed
from penstock.policies.guards.within_bounds import WithinBounds
from penstock.policies.job_columns import ColumnSource, ReplacedColumns
from penstock.policies.kind_options import OPTION_COLUMNS, KindOptions
from penstock.policies.kind_view import KindView
from penstock.policies.measure_first import MeasureFirst, patience, weakest_source
from penstock.policies.parameters import DeclaredParameter, Parameter, parameters_of, settings_of, show_value
from penstock.policies.per_kind import PerKind
from penstock.policies.planned_policy import PlannedPolicy, explain_plan
from penstock.policies.planning import (
    PlanLayout,
    PlanTerms,
    best_layout,
    extend,
    lay_out,
    promised_rows,
)
from penstock.policies.published.afs import Afs
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
from penstock.policies.tenant_table import TenantTable
from penstock.policies.view import KindConditions, Offer, View, offers_after

__all__ = [
    "COST_CLASSES",
    "ENTRY_POINTS",
    "MOST_SUSPENSIONS",
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
    "Gavel",
    "Genie",
    "Ints",
    "KindConditions",
    "KindOptions",
    "KindPolicy",
    "KindView",
    "Lucid",
    "MeasureFirst",
    "NamedPolicy",
    "Offer",
    "Optimus",
    "Parameter",
    "PerKind",
    "PlanLayout",
    "PlanTerms",
    "PlannedPolicy",
    "PlannedQuotes",
    "Plans",
    "Policy",
    "PolicyReference",
    "Pollux",
    "ReplacedColumns",
    "RowCrowd",
    "Sia",
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
    "admit_confined",
    "admit_singly",
    "admit_undisturbed",
    "allocate_confined",
    "allocate_lasting",
    "allocate_undisturbed",
    "asked_again",
    "best_layout",
    "by_priority",
    "explain_plan",
    "extend",
    "lay_out",
    "no_deadline",
    "offered_policies",
    "offers_after",
    "parameters_of",
    "patience",
    "policy_class",
    "policy_named",
    "promised",
    "promised_rows",
    "require_installed",
    "safe_end",
    "serve_in_order",
    "settings_of",
    "show_value",
    "split_policies",
    "start_in_order",
    "still_held",
    "take_in_order",
    "turned_down",
    "weakest_source",
]
