"""The GPU checks under pytest: ``pytest -m gpu tests/gpu``. Without pytest: ``python -m tests.gpu.run``."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.gpu.checks import CHECKS  # noqa: E402
from tests.runtime.agent import Zygote  # noqa: E402
from tests.tools import needs  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason=needs.reason("there is no CUDA device", "make test-gpu on a machine with a GPU"),
    ),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),
]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    warm = Zygote()
    yield warm
    warm.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_a_gpu(check: Callable[[Zygote, Path], None], zygote: Zygote, tmp_path: Path) -> None:
    check(zygote, tmp_path)
