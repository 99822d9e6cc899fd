"""How wide a job may run, as the artifact fixes it per model rather than reading it off the curve.

The numbers are constants of ``pkusys/ElasticFlow`` (scheduler/models.py). They are near, but not at, the peak of each
curve, so the published figures can only be replicated with this table.
"""

from collections.abc import Iterable, Sequence

from penstock.simulate.replicas.elasticflow.jobs import LEVELS

A100 = "A100"
T4 = "T4"

WIDEST_LEVEL = LEVELS[-1]

_T4_MODELS = frozenset({"cifar10", "imagenet", "ncf", "yolov3"})

_CAPS: dict[tuple[str, str, int | None], int] = {
    (T4, "bert", None): 16,
    (T4, "cifar10", None): 16,
    (T4, "deepspeech2", 320): 32,
    (T4, "yolov3", None): 4,
    (T4, "ncf", None): 1,
    (A100, "gpt2", 128): 16,
    (A100, "gpt2", 256): 32,
    (A100, "bert", 64): 8,
    (A100, "bert", None): 16,
    (A100, "inception3", 64): 16,
    (A100, "inception3", 128): 32,
    (A100, "resnet50", 64): 32,
    (A100, "vgg16", 64): 32,
}


def family(models: Iterable[str]) -> str:
    """Which device family a set of tables was profiled on, recognised by the models in it."""
    return T4 if _T4_MODELS.intersection(models) else A100


def cap(device_family: str, model: str, batch: int) -> int:
    """The most devices ElasticFlow gives a job; elsewhere one sample per device is the limit on A100."""
    for key in ((device_family, model, batch), (device_family, model, None)):
        if key in _CAPS:
            return _CAPS[key]
    return WIDEST_LEVEL if device_family == T4 else min(batch, WIDEST_LEVEL)


def widest(rates: Sequence[float], batch: int) -> int:
    """The most devices every other policy gives a job: the last column that runs, whether or not it is faster."""
    runnable = [level for level, rate in zip(LEVELS, rates, strict=True) if rate > 0]
    return min(batch, max(runnable, default=0))
