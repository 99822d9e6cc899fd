"""How one model is split over devices: chains of operators, their costs, cost models and searches."""

from penstock.parallel.clusters import PlanCluster, cluster_named
from penstock.parallel.extended import Prediction, Site, Trainer, predict
from penstock.parallel.families import MODELS, Family, family_named
from penstock.parallel.planner import Candidate, Planned, Planner, plan_for, throughput_curve

__all__ = [
    "MODELS",
    "Candidate",
    "Family",
    "PlanCluster",
    "Planned",
    "Planner",
    "Prediction",
    "Site",
    "Trainer",
    "cluster_named",
    "family_named",
    "plan_for",
    "predict",
    "throughput_curve",
]
