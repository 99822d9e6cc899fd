"""Any PyTorch model as a chain of operators: blocks, borders, costs, and what happens when it cannot be followed."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from penstock.core import InputError  # noqa: E402
from penstock.parallel import mesh_named, plan_for  # noqa: E402
from penstock.parallel.captured import ModuleFamily, module_family  # noqa: E402
from penstock.parallel.captured.blocks import CapturedBlock, blocks_of, follow  # noqa: E402
from penstock.parallel.planning.planner import Planner  # noqa: E402
from penstock.predict.capture import Setup, TrainingPhase, capture  # noqa: E402
from penstock.predict.zoo import network_named  # noqa: E402

WIDTH = 64

SCRIPT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(32, {width})
        self.blocks = nn.ModuleList(Block({width}) for _ in range({depth}))
        self.head = nn.Linear({width}, 10)
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        {extra}
        return self.head(x)

def penstock_model(batch):
    {before}
    return Net(), torch.randn(batch, 16, 32)
"""


def script(folder: Path, *, width: int = WIDTH, depth: int = 6, extra: str = "", before: str = "") -> str:
    path = folder / "train.py"
    text = SCRIPT.format(width=width, depth=depth, extra=extra or "pass", before=before or "pass")
    path.write_text(text, encoding="utf-8")
    return str(path)


class Skipping(nn.Module):
    """The first block's output is read again behind the third one."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        first = x = self.steps[0](x)
        for step in list(self.steps)[1:3]:
            x = torch.relu(step(x))
        return self.steps[3](x + first)


def _skipping(batch: int) -> tuple[nn.Module, Tensor]:
    return Skipping(), torch.randn(batch, 8)


class TestSegments:
    @pytest.mark.parametrize("name", ["gpt2", "resnet18", "t5-small", "vgg16"])
    def test_nothing_is_lost_and_nothing_counted_twice(self, name: str) -> None:
        hook = network_named(name).hook
        segments, whole = follow(hook, 4, Setup()), capture(hook, 4, Setup())
        for phase in (TrainingPhase.FORWARD, TrainingPhase.BACKWARD):
            found = sum(count for segment in segments for (_, when), count in segment.calls.items() if when is phase)
            assert found == sum(each.count for each in whole.calls if each.phase is phase)
        weights = {key: size for segment in segments for key, size in segment.weights.items()}
        assert sum(weights.values()) == whole.parameters
        assert sum(segment.kept for segment in segments) == pytest.approx(whole.memory.activations, rel=0.01)

    def test_equal_blocks_are_equal_and_send_what_the_next_reads(self) -> None:
        segments = follow(network_named("gpt2").hook, 2, Setup())
        blocks = segments[1:-1]
        assert [segment.name for segment in blocks] == [f"blocks.{number}" for number in range(12)]
        assert len({segment.signature for segment in blocks}) == 1
        assert blocks[0].sent == 2 * 1024 * 768 * 2
        assert segments[-1].sent == 0

    def test_gradients_belong_to_the_block_that_needs_them(self) -> None:
        segments = follow(network_named("gpt2").hook, 2, Setup())
        flops = [
            _flops(segment, TrainingPhase.BACKWARD) / _flops(segment, TrainingPhase.FORWARD) for segment in segments[1:]
        ]
        assert flops == pytest.approx([2.0] * len(flops), rel=0.1)

    def test_what_skips_segments_crosses_every_border_between(self) -> None:
        sent = [segment.sent for segment in follow(_skipping, 3, Setup()) if segment.calls]
        one = 3 * 8 * 2
        assert sent == [one, 2 * one, one, one, 0]

    def test_blocks_are_members_of_lists_and_sequences_not_what_is_inside(self) -> None:
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.ModuleDict({"a": nn.Linear(2, 2)}))
        assert [name for name, _ in blocks_of(model)] == ["0.0", "0.1", "1"]


def _flops(segment: CapturedBlock, phase: TrainingPhase) -> float:
    return sum(call.flops * count for (call, when), count in segment.calls.items() if when is phase)


class TestFamilies:
    def test_blocks_become_a_block_and_its_output_each(self, tmp_path: Path) -> None:
        family = module_family(script(tmp_path), 8)
        assert isinstance(family, ModuleFamily)
        assert family.chain().size == 1 + 2 * 6 + 1
        assert family.layers == 6
        assert family.micro_batches == (1, 2, 4, 8)
        assert family.parameters == 32 * 64 + 64 + 6 * (2 * 4 * 64 * 64 + 5 * 64) + 64 * 10 + 10

    def test_a_plan_needs_no_more_than_the_script(self, tmp_path: Path) -> None:
        answer = plan_for(script(tmp_path, width=1024, depth=12), "4xA100-40GB", batch=64, seconds=2)
        assert answer.plan.devices == 4
        assert all(tp == 1 for stage in answer.plan.stages for tp in stage.tp)
        assert "roofline of the datasheet of a100-40gb" in answer.costs_from
        assert answer.export_only

    def test_recomputing_blocks_keeps_only_their_outputs(self, tmp_path: Path) -> None:
        family = module_family(script(tmp_path, width=2048, depth=8), 16)
        planner = Planner(family=family, mesh=mesh_named("1xA100-40GB"), batch=16)
        tables = planner.tables(False, 1)
        inside, output = tables.activation_mb[1, 0, 0, 0], tables.activation_mb[2, 0, 0, 0]
        assert output == pytest.approx(16 * 2048 * 2 / 2**20)
        assert inside == pytest.approx(4 * output), "what the activation made is four times as wide"

    def test_measured_devices_are_used(self, tmp_path: Path) -> None:
        family = module_family(script(tmp_path), 8)
        planner = Planner(family=family, mesh=mesh_named("1xH200"), batch=8)
        assert "the profile measured on h200" in planner.tables(False, 1).source

    @pytest.mark.parametrize(("name", "batch"), [("llama-1b", 4), ("resnet50", 64)])
    def test_one_device_takes_what_it_was_measured_to_take(
        self, name: str, batch: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Iterations timed on an H200, which ship with its profile; the optimizer is counted apart."""
        measured = {("llama-1b", 4): 0.13365, ("resnet50", 64): 0.02954}[name, batch]
        hooks = type(torch)("penstock_test_hooks")
        hooks.build = network_named(name).hook
        monkeypatch.setitem(__import__("sys").modules, "penstock_test_hooks", hooks)
        family = module_family("penstock_test_hooks:build", batch)
        planner = Planner(family=family, mesh=mesh_named("1xH200"), batch=batch)
        tables = planner.tables(False, 1)
        place = planner.micro_batches.index(batch)
        passes = float(np.sum((tables.fwd_us + tables.bwd_us)[:, place, 0, 0][tables.chain.ops])) / 1e6
        assert passes + planner.priced.device.optimizer_s(family.parameters) == pytest.approx(measured, rel=0.1)


def test_few_large_micro_batches_where_the_host_is_the_bound(tmp_path: Path) -> None:
    """A tiny model takes as long for sixteen samples as for one, so that one micro-batch is best."""
    answer = plan_for(script(tmp_path), "4xH200", batch=64, seconds=0.1)
    assert answer.plan.micro_batches == 1


class TestRefusals:
    def test_values_that_decide_the_path(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="reads the value of a tensor"):
            module_family(script(tmp_path, extra="x = x[: int(x.argmax())]"), 8)

    def test_a_hook_that_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"train.py:\d+: .*no such data"):
            module_family(script(tmp_path, before="raise ValueError('no such data')"), 8)

    def test_a_script_without_the_hook(self, tmp_path: Path) -> None:
        path = tmp_path / "plain.py"
        path.write_text("x = 1\n", encoding="utf-8")
        with pytest.raises(InputError, match="has no function penstock_model"):
            module_family(str(path), 8)

    def test_no_such_script_or_module(self) -> None:
        with pytest.raises(InputError, match=r"no file absent\.py"):
            plan_for("absent.py", "8xA100", batch=8)
        with pytest.raises(InputError, match="cannot be imported"):
            plan_for("absent_module:build", "8xA100", batch=8)

    def test_a_sequence_length_belongs_to_the_script(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="brings its own inputs"):
            plan_for(script(tmp_path), "8xA100", batch=8, seq=128)
