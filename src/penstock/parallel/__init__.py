"""How one model is split over devices: chains of operators, their costs, cost models and searches."""

from penstock.parallel.checking import Checked, check_plan
from penstock.parallel.clusters import PlanCluster, cluster_named
from penstock.parallel.extended import Prediction, Site, Trainer, predict
from penstock.parallel.families import MODELS, Family, family_named
from penstock.parallel.modules import module_family
from penstock.parallel.planner import Candidate, Planned, Planner, plan_for, throughput_curve

__all__ = [
    "MODELS",
    "Candidate",
    "Checked",
    "Family",
    "PlanCluster",
    "Planned",
    "Planner",
    "Prediction",
    "Site",
    "Trainer",
    "check_plan",
    "cluster_named",
    "family_named",
    "module_family",
    "plan_for",
    "predict",
    "throughput_curve",
]
