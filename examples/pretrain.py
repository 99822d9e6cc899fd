"""Pretrain a Llama on packed tokens: elastic, resumable on any number of devices with the same order of samples.

    penstock data pack docs README.md --out corpus
    python examples/pretrain.py --data corpus --size tiny --sequence 256 --batch 16 --steps 200
    torchrun --nproc-per-node 8 examples/pretrain.py --data corpus --size 1b --strategy fsdp2 --compile
    penstock submit examples/pretrain.yaml

``docs/pretrain.md`` walks through it. ``--data web=0.7 --data code=0.3`` mixes data sets.
"""

import argparse
import math
import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from llama import SIZES, Block, Llama
from torch import Tensor, nn

import penstock.data as data
import penstock.elastic as elastic


def main() -> None:
    args = options()
    run = elastic.init(checkpoint_dir=args.checkpoints, checkpoint_every=args.checkpoint_every)
    torch.set_float32_matmul_precision("high")
    if run.device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    tokens = corpus(args.data, args)
    shape = replace(SIZES[args.size], vocabulary=tokens.vocabulary, sequence=args.sequence)
    with run.device:
        llama = Llama(shape, recompute=args.recompute)
    model = run.wrap(llama, strategy=args.strategy, **engine_options(args, run.device))
    if args.compile:
        Block.forward = torch.compile(Block.forward)  # of the class: FSDP2 makes new blocks for every world
    optimizer = adamw(model, args, run.device)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, args.warmup, args.steps))
    run.attach(optimizer=optimizer, schedule=schedule, data=tokens)

    held_out = corpus([args.eval_data], args) if args.eval_data else None
    meter = Meter(model.module.flops_per_token(), args, run)
    steps = run.steps(tokens, global_batch=args.batch, micro_batch=args.micro_batch, steps=args.steps, seed=args.seed)
    for step in steps:
        with step:
            for batch in step.parts():
                with precision(args, run.device):
                    loss = next_token_loss(model, batch, args)
                step.backward(loss)
            norm = whole(nn.utils.clip_grad_norm_(model.parameters(), args.clip))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done = step.number + 1
            if done % args.log_every == 0 or done == args.steps:
                meter.tell(done, loss=step.loss, lr=schedule.get_last_lr()[0], grad_norm=float(norm))
            if held_out and (done % args.eval_every == 0 or done == args.steps):
                meter.tell_more(done, eval_loss=evaluate(model, held_out, args, run.device))
    meter.close()
    if run.is_main:
        print(f"done after {run.completed} steps", flush=True)


# --- data -------------------------------------------------------------------------------------------------------------


def corpus(given: list[str], args: argparse.Namespace) -> "data.TokenDataset | data.Mixture":
    """One data set, or several with weights behind an equals sign."""
    parts = {}
    for one in given:
        place, _, weight = one.rpartition("=") if "=" in one else (one, "", "1")
        dataset = data.TokenDataset(place, sequence=args.sequence, pack=args.pack, boundaries=args.documents)
        parts[dataset] = float(weight)
    return data.Mixture(parts) if len(parts) > 1 else next(iter(parts))


# --- what is optimized ------------------------------------------------------------------------------------------------


def next_token_loss(model: nn.Module, batch: data.TokenBatch, args: argparse.Namespace) -> Tensor:
    """Mean over all places, ends of documents counted as 0, so that every sample weighs the same in any world."""
    logits = model(batch.tokens, batch.positions if args.documents else None)
    total = nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch.labels.flatten(), reduction="sum")
    return total / batch.tokens.numel()


@torch.no_grad()
def evaluate(model: nn.Module, held_out: data.TokenDataset, args: argparse.Namespace, device: torch.device) -> float:
    """The same few batches on every worker: nothing to exchange, and sharded models are gathered by all together."""
    rows, total = args.micro_batch or 8, 0.0
    count = min(args.eval_batches, max(1, len(held_out) // rows))
    for number in range(count):
        arrays = held_out.read(range(number * rows, min((number + 1) * rows, len(held_out))))
        batch = data.TokenBatch(*(None if one is None else torch.from_numpy(one).to(device) for one in arrays))
        with precision(args, device):
            total += float(next_token_loss(model.module, batch, args))
    return total / count


def adamw(model: nn.Module, args: argparse.Namespace, device: torch.device) -> torch.optim.AdamW:
    """Weights decay, gains of norms do not."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": args.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=device.type == "cuda")


def rate_at(step: int, warmup: int, steps: int, least: float = 0.1) -> float:
    """Up in a line, down in half a cosine to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * done))


# --- precision and engines --------------------------------------------------------------------------------------------


def precision(args: argparse.Namespace, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if args.precision == "bf16" else nullcontext()


def engine_options(args: argparse.Namespace, device: torch.device) -> dict[str, object]:
    """FSDP2 gathers weights in bf16, half the bytes, and adds gradients up in fp32."""
    if args.strategy != "fsdp2" or args.precision != "bf16" or device.type != "cuda":
        return {}
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}


def whole(norm: Tensor) -> Tensor:
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


# --- what is told -----------------------------------------------------------------------------------------------------


class Meter:
    """Tokens a second, the share of the devices' peak that the model used (MFU), and the share of time that was spent
    waiting for data, between two lines of the log."""

    def __init__(self, flops_per_token: float, args: argparse.Namespace, run: elastic.Run) -> None:
        self.args, self.run = args, run
        self.flops_per_token = flops_per_token
        self.peak = 1e12 * args.peak_tflops if args.peak_tflops else device_peak(run.device, args.precision)
        self.writers: list[elastic.MetricWriter] = []
        self.last: tuple[int, float, float] | None = None

    def tell(self, done: int, **values: float) -> None:
        """All workers come here; the first one speaks."""
        now, stall = time.perf_counter(), self.run.loading.stall_s if self.run.loading else 0.0
        if self.last is not None and done > self.last[0]:
            before, began, stalled = self.last
            seconds = now - began
            rate = (done - before) * self.args.batch * self.args.sequence / seconds
            values |= {"tokens_per_s": rate, "input_stall": (stall - stalled) / seconds}
            if self.run.device.type == "cuda":
                values["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
            if self.peak:
                values["mfu"] = rate * self.flops_per_token / (self.peak * self.run.size)
        self.last = (done, now, stall)
        self.tell_more(done, **values)

    def tell_more(self, done: int, **values: float) -> None:
        if not self.run.is_main:
            return
        self.run.log({name: value for name, value in values.items() if name != "loss"}, step=done)
        self.writers = self.writers or [elastic.metric_writer(kind, self.args.out) for kind in self.args.metrics]
        for writer in self.writers:
            writer.write(done, values)
        words = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        print(f"step {done:6d}  workers {self.run.size}  {words}", flush=True)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def device_peak(device: torch.device, given: str) -> float | None:
    """FLOP/s from the data sheet of this device, if there is one."""
    from penstock.core import UnknownNameError
    from penstock.predict import Precision, device_named

    if device.type != "cuda":
        return None
    try:
        chip = device_named(torch.cuda.get_device_name(device))
    except UnknownNameError:
        return None
    return chip.peak(Precision.BF16 if given == "bf16" else Precision.TF32)


def penstock_model(batch: int) -> tuple[nn.Module, Tensor, object]:
    """What ``penstock predict examples/pretrain.py`` and a quote before the first run look at."""
    shape = SIZES[os.environ.get("PRETRAIN_SIZE", "125m")]
    tokens = torch.zeros(batch, shape.sequence, dtype=torch.long)
    return Llama(shape), tokens, lambda logits: nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Pretrain a Llama on packed tokens.")
    group = parser.add_argument_group("data")
    group.add_argument("--data", action="append", required=True, help="packed tokens, PLACE or PLACE=WEIGHT")
    group.add_argument("--sequence", type=int, default=2048, help="tokens per sample")
    group.add_argument("--pack", choices=["concat", "best_fit"], default="concat")
    group.add_argument("--documents", action="store_true", help="documents in a sample do not see each other")
    group.add_argument("--eval-data", help="packed tokens to test on")
    group.add_argument("--eval-every", type=int, default=500)
    group.add_argument("--eval-batches", type=int, default=16)
    group = parser.add_argument_group("model and optimizer")
    group.add_argument("--size", choices=list(SIZES), default="125m")
    group.add_argument("--steps", type=int, default=1000)
    group.add_argument("--batch", type=int, default=256, help="samples per step, all workers together")
    group.add_argument("--micro-batch", type=int, help="samples in memory at once")
    group.add_argument("--lr", type=float, default=6e-4)
    group.add_argument("--warmup", type=int, default=100)
    group.add_argument("--weight-decay", type=float, default=0.1)
    group.add_argument("--clip", type=float, default=1.0)
    group.add_argument("--seed", type=int, default=0)
    group = parser.add_argument_group("engine")
    group.add_argument("--strategy", choices=["ddp", "fsdp2"], default="ddp")
    group.add_argument("--precision", choices=["bf16", "fp32"], default="bf16" if torch.cuda.is_available() else "fp32")
    group.add_argument("--recompute", action="store_true", help="keep no activations inside blocks")
    group.add_argument("--compile", action="store_true")
    group = parser.add_argument_group("what is kept and told")
    group.add_argument("--checkpoints", help="a directory or URL; a job's own if left out")
    group.add_argument("--checkpoint-every", help='such as "10m"')
    group.add_argument("--metrics", nargs="*", choices=["csv", "tensorboard", "mlflow"], default=[])
    group.add_argument("--out", default="pretrain-out", help="where metrics go")
    group.add_argument("--log-every", type=int, default=10)
    group.add_argument("--peak-tflops", type=float, help="of a device, for MFU [its data sheet]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
