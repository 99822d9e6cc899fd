"""The cost model the searches optimise: Aceso's, exactly, quirks included."""

from penstock.parallel.cost_model.evaluation import Evaluation, evaluate, evaluate_repaired
from penstock.parallel.cost_model.stage import StageCost, repaired_stage_cost, stage_cost

__all__ = ["Evaluation", "StageCost", "evaluate", "evaluate_repaired", "repaired_stage_cost", "stage_cost"]
