"""What runs inside a worker: a training loop that survives changes of its world. Needs PyTorch (``penstock[runtime]``).

``penstock.elastic`` is the name scripts use; ``penstock.runtime.zygote`` is started by the agent. Nothing is imported
before somebody asks for it, so that the zygote's first line and the tools that only want its name stay light.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.core import best_interval_s
    from penstock.runtime.checkpoints.checkpoint import Checkpoints
    from penstock.runtime.checkpoints.exchange.huggingface import export_weights, import_weights
    from penstock.runtime.checkpoints.manifest import Manifest
    from penstock.runtime.checkpoints.memory.glance import snapshots_in
    from penstock.runtime.evaluation.packing import PackedEvaluation, SetTime, Shard, pack, play
    from penstock.runtime.evaluation.session import Evaluation, ShardRun, init_evaluation
    from penstock.runtime.integrations.callbacks import callback_class
    from penstock.runtime.training.metric_log import log
    from penstock.runtime.training.run import Run, init
    from penstock.runtime.training.step import Step
    from penstock.runtime.world.group import WorldLostError

__all__ = [
    "Checkpoints",
    "Evaluation",
    "Manifest",
    "PackedEvaluation",
    "Run",
    "SetTime",
    "Shard",
    "ShardRun",
    "Step",
    "WorldLostError",
    "best_interval_s",
    "callback_class",
    "export_weights",
    "import_weights",
    "init",
    "init_evaluation",
    "log",
    "pack",
    "play",
    "snapshots_in",
]

__getattr__ = lazy_door(__name__)
