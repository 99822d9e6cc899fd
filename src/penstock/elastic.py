"""Elastic training in a few lines: ``run = elastic.init()``, ``run.wrap``, ``run.attach``, ``run.steps``.

See ``docs/elastic.md`` for a plain script and its elastic twin.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("penstock.elastic needs PyTorch: pip install 'penstock[runtime]'") from error

from penstock.runtime import Checkpoints, Manifest, Run, Step, WorldLostError, best_interval_s, init

__all__ = ["Checkpoints", "Manifest", "Run", "Step", "WorldLostError", "best_interval_s", "init"]
