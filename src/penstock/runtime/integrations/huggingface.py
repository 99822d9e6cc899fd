"""For the Trainer of Hugging Face: ``Trainer(…, callbacks=[elastic.HFCallback()])``."""

from typing import Any

from transformers import TrainerCallback

from penstock.runtime.integrations.plain_worker import PlainWorker


class HFCallback(TrainerCallback):  # type: ignore[misc]
    """Tells progress, metrics and checkpoints; saves and leaves when the job's devices are wanted.

    Save to ``PENSTOCK_CHECKPOINT_DIR`` and begin with ``trainer.train(resume_from_checkpoint=get_last_checkpoint(…))``.
    """

    def __init__(self) -> None:
        self._worker = PlainWorker()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._worker.listen()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._worker.progress(state.global_step, state.max_steps)
        if self._worker.must_stop(state.global_step):
            control.should_save = control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        self._worker.log(logs or {}, state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._worker.saved(state.global_step, f"{args.output_dir}/checkpoint-{state.global_step}")
        if self._worker.must_stop(state.global_step):
            self._worker.leave()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self._worker.progress(state.global_step, state.max_steps)
        self._worker.stop_listening()
