"""Elastic training in a few lines: ``run = elastic.init()``, ``run.wrap``, ``run.attach``, ``run.steps``;
metrics by ``elastic.log(val_acc=0.91)``.

See ``docs/elastic.md`` for a plain script and its elastic twin.
"""

from penstock.core import require

require("torch", extra="runtime", why="penstock.elastic")

from penstock.runtime import Checkpoints, Manifest, Run, Step, WorldLostError, best_interval_s, init, log  # noqa: E402

__all__ = ["Checkpoints", "Manifest", "Run", "Step", "WorldLostError", "best_interval_s", "init", "log"]
