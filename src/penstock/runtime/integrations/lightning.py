"""For the Trainer of Lightning: ``Trainer(…, callbacks=[elastic.LightningCallback()])``."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from penstock.core import InputError
from penstock.runtime.integrations.plain_worker import PlainWorker

CHECKPOINT = "penstock.ckpt"
"""What is written when the devices are wanted, in ``PENSTOCK_CHECKPOINT_DIR``."""


def _callback_class() -> Any:
    """Of the package that the script uses: Lightning goes by two names that do not know each other."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise InputError("LightningCallback without Lightning", " or ".join(names), "pip install lightning")


class LightningCallback(_callback_class()):  # type: ignore[misc]
    """Tells progress and metrics; saves ``penstock.ckpt`` and leaves when the job's devices are wanted.

    Begin with ``trainer.fit(model, ckpt_path=LightningCallback.checkpoint())``.
    """

    def __init__(self) -> None:
        self._worker = PlainWorker()

    @staticmethod
    def checkpoint() -> str | None:
        """Where to go on from; nothing for a job that begins."""
        path = Path(os.environ.get("PENSTOCK_CHECKPOINT_DIR", "."), CHECKPOINT)
        return str(path) if path.exists() else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        self._worker.listen()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:  # noqa: ARG002
        step = trainer.global_step
        self._worker.progress(step, float(trainer.estimated_stepping_batches))
        if step % trainer.log_every_n_steps == 0:
            self._worker.log(trainer.callback_metrics, step)
        if self._worker.must_stop(step):
            self._save(trainer, step)
            self._worker.leave()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        if not trainer.sanity_checking:
            self._worker.log(trainer.callback_metrics, trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        self._worker.log(trainer.callback_metrics, trainer.global_step)
        self._worker.stop_listening()

    def _save(self, trainer: Any, step: int) -> None:
        path = Path(os.environ.get("PENSTOCK_CHECKPOINT_DIR", "."), CHECKPOINT)
        draft = path.with_suffix(".part")
        trainer.save_checkpoint(draft)
        if self._worker.is_main:
            draft.replace(path)
        self._worker.saved(step, str(path))
