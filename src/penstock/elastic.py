"""Elastic training in a few lines: ``run = elastic.init()``, ``run.wrap``, ``run.attach``, ``run.steps``.

See ``docs/elastic.md`` for a plain script and its elastic twin.
"""

from penstock.core import require

require("torch", extra="runtime", why="penstock.elastic")

from penstock.runtime import Checkpoints, Manifest, Run, Step, WorldLostError, best_interval_s, init  # noqa: E402

__all__ = ["Checkpoints", "Manifest", "Run", "Step", "WorldLostError", "best_interval_s", "init"]
