"""How one model is split over devices: chains of operators, their costs, cost models and searches."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.parallel.captured import module_family
    from penstock.parallel.devices import ChipMesh, PricedMesh, Trainer, mesh_named
    from penstock.parallel.exports import TRAINERS, Exported, export
    from penstock.parallel.exports.common import flattened
    from penstock.parallel.families import MODELS, Family, family_named
    from penstock.parallel.full_cost import Prediction, predict
    from penstock.parallel.planning.by_count import (
        CountedPlan,
        DevicePool,
        plans_by_count,
        scaling_of,
        trainable,
        trainable_plans,
        trainer_options,
    )
    from penstock.parallel.planning.candidates import Candidate, Planned
    from penstock.parallel.planning.check import Checked, check_plan
    from penstock.parallel.planning.in_child import PlanLibrary, PlanQuestion
    from penstock.parallel.planning.planner import Planner
    from penstock.parallel.planning.requests import evaluate_plan, plan_for, throughput_curve
    from penstock.parallel.planning.text import plan_comparison, plan_findings, plan_picture, plan_words
    from penstock.parallel.planning.trainer_kernels import TrainerKernels
    from penstock.parallel.planning.training_run import TrainingRun, parse_tokens, run_words, training_run

__all__ = [
    "MODELS",
    "TRAINERS",
    "Candidate",
    "Checked",
    "ChipMesh",
    "CountedPlan",
    "DevicePool",
    "Exported",
    "Family",
    "PlanLibrary",
    "PlanQuestion",
    "Planned",
    "Planner",
    "Prediction",
    "PricedMesh",
    "Trainer",
    "TrainerKernels",
    "TrainingRun",
    "check_plan",
    "evaluate_plan",
    "export",
    "family_named",
    "flattened",
    "mesh_named",
    "module_family",
    "parse_tokens",
    "plan_comparison",
    "plan_findings",
    "plan_for",
    "plan_picture",
    "plan_words",
    "plans_by_count",
    "predict",
    "run_words",
    "scaling_of",
    "throughput_curve",
    "trainable",
    "trainable_plans",
    "trainer_options",
    "training_run",
]

__getattr__ = lazy_door(__name__)
