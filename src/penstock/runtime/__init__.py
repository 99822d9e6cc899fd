"""What runs inside a worker: a training loop that survives changes of its world, and the data it reads. Needs PyTorch
(the extra ``runtime``), but for packing tokens and reading them as arrays.

``penstock.elastic`` and ``penstock.data`` are the names scripts use; ``penstock.runtime.zygote`` is started by the
agent. Nothing is imported before somebody asks for it, so that the zygote's first line and the tools that only want its
name stay light.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.core import best_interval_s
    from penstock.runtime.checkpoints.checkpoint import Checkpoints
    from penstock.runtime.checkpoints.exchange.huggingface import export_weights, import_weights
    from penstock.runtime.checkpoints.exchange.torch_directory import export_torch
    from penstock.runtime.checkpoints.manifest import UNREADABLE, Manifest, format_problem
    from penstock.runtime.checkpoints.memory.glance import snapshots_in
    from penstock.runtime.data.packing.pack import Packed, pack_text
    from penstock.runtime.data.packing.sources import SourceFormat
    from penstock.runtime.data.reading.mixture import Mixture
    from penstock.runtime.data.reading.prefetch import LoadingStats
    from penstock.runtime.data.reading.token_batch import TokenBatch
    from penstock.runtime.data.reading.token_dataset import TokenDataset, TooMuchDamageError
    from penstock.runtime.data.storage.data_manifest import DataManifest
    from penstock.runtime.data.storage.opening import open_tokens
    from penstock.runtime.data.storage.token_writer import SHARD_BYTES, TokenWriter
    from penstock.runtime.data.storage.verification import Damage, verify_tokens
    from penstock.runtime.evaluation.packing import PackedEvaluation, SetTime, Shard, pack, play
    from penstock.runtime.evaluation.session import Evaluation, ShardRun, init_evaluation
    from penstock.runtime.integrations.callbacks import callback_class
    from penstock.runtime.training.metric_log import log
    from penstock.runtime.training.metric_writers import MetricWriter, metric_writer
    from penstock.runtime.training.run import Run, init
    from penstock.runtime.training.step import Step
    from penstock.runtime.training.token_loader import TokenLoader
    from penstock.runtime.world.group import WorldLostError

__all__ = [
    "SHARD_BYTES",
    "UNREADABLE",
    "Checkpoints",
    "Damage",
    "DataManifest",
    "Evaluation",
    "LoadingStats",
    "Manifest",
    "MetricWriter",
    "Mixture",
    "Packed",
    "PackedEvaluation",
    "Run",
    "SetTime",
    "Shard",
    "ShardRun",
    "SourceFormat",
    "Step",
    "TokenBatch",
    "TokenDataset",
    "TokenLoader",
    "TokenWriter",
    "TooMuchDamageError",
    "WorldLostError",
    "best_interval_s",
    "callback_class",
    "export_torch",
    "export_weights",
    "format_problem",
    "import_weights",
    "init",
    "init_evaluation",
    "log",
    "metric_writer",
    "open_tokens",
    "pack",
    "pack_text",
    "play",
    "snapshots_in",
    "verify_tokens",
]

__getattr__ = lazy_door(__name__)
