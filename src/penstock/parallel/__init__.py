"""How one model is split over devices: chains of operators, their costs, cost models and searches."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.parallel.captured import module_family
    from penstock.parallel.checking import Checked, check_plan
    from penstock.parallel.devices.clusters import PlanCluster, cluster_named
    from penstock.parallel.exports import TRAINERS, export
    from penstock.parallel.families import MODELS, Family, family_named
    from penstock.parallel.full_cost import Prediction, Site, Trainer, predict
    from penstock.parallel.planner import Candidate, Planned, Planner, plan_for, throughput_curve
    from penstock.parallel.render import plan_comparison, plan_findings, plan_picture, plan_words

__all__ = [
    "MODELS",
    "TRAINERS",
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
    "export",
    "family_named",
    "module_family",
    "plan_comparison",
    "plan_findings",
    "plan_for",
    "plan_picture",
    "plan_words",
    "predict",
    "throughput_curve",
]

__getattr__ = lazy_door(__name__)
