"""The cost model the searches optimise: Aceso's, exactly, quirks included."""

from penstock.parallel.cost_model.evaluation import Evaluation, evaluate
from penstock.parallel.cost_model.stage import StageCost, stage_cost

__all__ = ["Evaluation", "StageCost", "evaluate", "stage_cost"]
