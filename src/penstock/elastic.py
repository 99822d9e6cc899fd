"""Elastic training in a few lines: ``run = elastic.init()``, ``run.wrap``, ``run.attach``, ``run.steps``;
metrics by ``elastic.log(val_acc=0.91)``, and to files or a tracker of one's own by ``elastic.metric_writer``; callbacks
for the trainers of Hugging Face (``elastic.HFCallback``) and of Lightning (``elastic.LightningCallback``), which need
these packages; weights to and from directories in the layout of Hugging Face (``elastic.export_weights``,
``elastic.import_weights``).

See ``docs/elastic.md`` for a plain script and its elastic twin.
"""

from typing import Any

from penstock.core import require

require("torch", extra="runtime", why="penstock.elastic")

from penstock.runtime import (  # noqa: E402
    Checkpoints,
    Manifest,
    MetricWriter,
    Run,
    Step,
    WorldLostError,
    best_interval_s,
    callback_class,
    export_torch,
    export_weights,
    import_weights,
    init,
    log,
    metric_writer,
)

__all__ = [
    "Checkpoints",
    "Manifest",
    "MetricWriter",
    "Run",
    "Step",
    "WorldLostError",
    "best_interval_s",
    "export_torch",
    "export_weights",
    "import_weights",
    "init",
    "log",
    "metric_writer",
]


def __getattr__(name: str) -> Any:
    """Callbacks for loops of others."""
    return callback_class(name)
