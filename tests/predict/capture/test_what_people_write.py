"""Models as people write them: masks, devices named in the code, recurrent layers, optimizers; and what is refused."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from penstock.core import InputError
from penstock.predict.capture import OPTIMIZERS, Capture, Setup, capture

FP32 = Setup(precision="default", optimizer="adam")


class Does(nn.Module):
    """A layer, then whatever a test wants."""

    def __init__(self, then: Callable[["Does", Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.then = nn.Linear(8, 8), then

    def forward(self, value: Tensor) -> Tensor:
        return self.then(self, self.layer(value))


def followed(then: Callable[[Any, Tensor], Tensor], setup: Setup = FP32, rows: int = 16) -> Capture:
    return capture(lambda batch: (Does(then), torch.randn(batch, 8)), rows, setup)


def names(seen: Capture) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in seen.calls:
        found[f"{each.call.family}:{each.call.variant}"] += each.count
    return found


def test_a_mask_over_the_best_of_four_keeps_a_quarter() -> None:
    seen = followed(lambda me, v: me.layer(v[v[:, :4].argmax(-1) == 2]), rows=64)
    assert any(each.call.family == "gemm" and each.call.dims[1] == 16 for each in seen.calls)
    assert seen.waits >= 1
    assert not seen.assumed


def test_a_mask_that_nothing_is_known_of_keeps_a_half_and_says_so() -> None:
    seen = followed(lambda me, v: me.layer(v[v[:, 0] > 0]), rows=64)
    assert any(each.call.family == "gemm" and each.call.dims[1] == 32 for each in seen.calls)
    assert any("half" in each for each in seen.assumed)


def test_a_gpu_named_in_the_code_is_no_obstacle() -> None:
    def then(me: Any, value: Tensor) -> Tensor:
        extra = torch.arange(8).cuda() + torch.zeros(8, device="cuda").to("cuda:0")
        return value.cuda() * extra

    assert names(followed(then))["elementwise:mul/b"] >= 1

    def hook(batch: int) -> Any:
        return nn.Linear(8, 2).cuda(), torch.randn(batch, 8, device="cuda")

    assert capture(hook, 4, FP32).parameters == 18


def test_autocast_inside_a_model_counts() -> None:
    def then(me: Any, value: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return me.layer(value)

    kinds = {str(each.call.precision) for each in followed(then).calls if each.call.family == "gemm"}
    assert kinds == {"fp32", "bf16"}


def test_attention_of_torch_is_cast_by_autocast() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    seen = capture(lambda batch: (layer.to("meta"), torch.randn(batch, 16, 64)), 2, Setup(precision="amp-bf16"))
    products = [each.call for each in seen.calls if each.call.family in ("gemm", "attention", "attention_bwd")]
    assert {str(call.precision) for call in products} == {"bf16"}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_one_call_each_way(kind: type[nn.RNNBase]) -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = kind(8, 16, 2, batch_first=True, bidirectional=True)

        def forward(self, value: Tensor) -> Tensor:
            return self.recurrent(value)[0]

    seen = capture(lambda batch: (Reads(), torch.randn(batch, 5, 8)), 3, FP32)
    calls = [each.call for each in seen.calls if each.call.family == "recurrent"]
    assert [call.dims for call in calls] == [(5, 3, 16, 2, 2)] * 2
    assert sum(seen.dispatches.values()) < 200


def test_checkpoints_run_again_as_they_ran_first() -> None:
    def blocks(again: bool) -> Capture:
        def then(me: Any, value: Tensor) -> Tensor:
            def block(inner: Tensor) -> Tensor:
                return torch.nn.functional.rms_norm(me.layer(inner), (8,))

            return checkpoint(block, value, use_reentrant=False) if again else block(value)

        return followed(then, Setup(precision="amp-bf16"))

    plain, again = names(blocks(False)), names(blocks(True))
    assert again["gemm:nt+bias"] == plain["gemm:nt+bias"] + 1
    assert again["norm:rms"] == plain["norm:rms"] + 1


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_every_optimizer_is_followed_with_its_state(optimizer: str) -> None:
    seen = followed(lambda _, v: v, Setup(precision="default", optimizer=optimizer))
    assert (seen.memory.optimizer > 0) == (optimizer != "sgd-plain")
    assert seen.memory.peak >= seen.memory.weights + seen.memory.gradients + seen.memory.optimizer


def test_lists_of_tensors_are_stepped_in_few_operations() -> None:
    seen = followed(lambda _, v: v, Setup(precision="default", optimizer="adamw-foreach"))
    assert 5 <= seen.lists <= 20
    assert seen.listed >= 2 * seen.lists - 2


def test_convolutions_use_tf32_by_default_and_products_do_not() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8, 2)

        def forward(self, value: Tensor) -> Tensor:
            return self.out(self.conv(value).mean((2, 3)))

    seen = capture(lambda batch: (Both(), torch.randn(batch, 3, 8, 8)), 2, FP32)
    found = {(each.call.family, str(each.call.precision)) for each in seen.calls}
    assert ("conv", "tf32") in found
    assert ("gemm", "fp32") in found


def test_sparse_gradients_are_followed_where_the_optimizer_takes_them() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(100, 8, sparse=True)

        def forward(self, places: Tensor) -> Tensor:
            return self.table(places)

    def hook(batch: int) -> Any:
        return Looks(), torch.randint(100, (batch,))

    assert capture(hook, 4, Setup(precision="default", optimizer="sgd-plain")).memory.gradients < 100 * 8 * 4
    with pytest.raises(InputError, match="sparse"):
        capture(hook, 4, Setup(precision="default", optimizer="adamw-foreach"))


def _raises(batch: int) -> Any:
    raise KeyError("no such data")


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (_raises, "no such data"),
        (lambda batch: (nn.Linear(8, 2), torch.randn(batch, 9)), "dim|multiplied"),
        (lambda batch: (nn.Linear(8, 2), torch.randn(batch, 8), lambda out: out), "scalar"),
        (
            lambda batch: (torch.compile(nn.Linear(8, 2), backend="eager"), torch.randn(batch, 8)),
            r"compiled with torch\.compile",
        ),
    ],
)
def test_what_cannot_be_followed_is_said_and_not_raised(hook: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        capture(hook, 4, FP32)


def test_a_compiled_function_inside_is_refused_by_name() -> None:
    compiled = torch.compile(lambda value: value.relu(), backend="eager")
    with pytest.raises(InputError, match=r"compiled with torch\.compile"):
        followed(lambda _, v: compiled(v))


def test_what_a_kernel_wants_side_by_side_is_copied_first() -> None:
    flat = names(followed(lambda me, v: torch.layer_norm(me.layer(v), (8,))))
    turned = names(followed(lambda me, v: torch.layer_norm(me.layer(v).t().contiguous().t(), (8,))))
    assert turned["norm:layer"] == flat["norm:layer"] == 1
    assert turned["copy:copy/s"] > flat["copy:copy/s"]


def test_the_gradient_of_a_cut_is_zeros_and_a_copy_into_them() -> None:
    whole, cut = (names(followed(then)) for then in (lambda me, v: me.layer(v), lambda me, v: me.layer(v)[:, :4]))
    assert cut["copy:fill"] == whole["copy:fill"] + 1
    assert sum(n for name, n in cut.items() if name.startswith("copy:copy")) > 0
    assert not any("pad" in name or "slice_backward" in name for name in cut)


def test_turned_parts_are_joined_otherwise_than_flat_ones() -> None:
    flat = names(followed(lambda me, v: torch.cat([me.layer(v), v])))
    turned = names(followed(lambda me, v: torch.cat([me.layer(v).t(), v.t()]), rows=16))
    assert "copy:cat" in flat
    assert "copy:cat/s" in turned


def test_norms_of_single_images_and_picked_rows_are_known_by_what_decides_their_time() -> None:
    images = followed(lambda me, v: nn.functional.instance_norm(me.layer(v).view(4, 2, 4, 4)))
    assert "norm:batch-plain" in names(images)
    picked = followed(lambda me, v: me.layer(v).index_select(0, torch.zeros(40, dtype=torch.long, device=v.device)))
    calls = [each.call for each in picked.calls if each.call.variant.startswith("index_select")]
    assert [call.dims[1] for call in calls] == [40]


def test_the_hosts_work_is_counted_by_name_and_by_module() -> None:
    once, twice = followed(lambda _, v: v), followed(lambda me, v: me.layer(v))
    assert (once.modules, twice.modules) == (2, 3)
    assert twice.operations["addmm"] == once.operations["addmm"] + 1
    assert sum(twice.operations.values()) == sum(twice.dispatches.values())
