"""What ``bench.evaluation`` runs as jobs: a small transformer that is saved, evaluated on data sets, and scored.

``train`` saves a checkpoint whenever it is asked to by a file, ``evaluate`` is the script of ``evaluate:``, ``score``
its metric step, and ``single`` is what people do without it: one process that loads the model, evaluates one data set
and computes its metric.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

SETS = {
    "arc": 5, "boolq": 8, "code": 12, "gsm": 3, "hellaswag": 22, "lambada": 6, "mmlu": 33, "piqa": 10, "race": 9,
    "siqa": 7, "triviaqa": 18, "winogrande": 11,
}  # fmt: skip
"""Data sets and samples of each; a job for one of them loads the model for about 30 % of its time and computes its
metric for about 19 %, on one core that nobody else uses."""
LENGTH, WORDS, WIDTH, DEPTH = 64, 40_000, 512, 6
_BATCH = 4
_NEIGHBOURS = 28
_LOOK_EVERY_S = 0.05


def model() -> "nn.Module":
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    layers = nn.TransformerEncoder(layer, DEPTH)
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), layers, nn.Linear(WIDTH, WORDS)).eval()


def answers(network: "nn.Module", name: str, start: int, stop: int) -> list[list[int]]:
    """What the model makes of some samples; they follow from their data set and number."""
    import torch

    found: list[list[int]] = []
    with torch.inference_mode():
        for first in range(start, stop, _BATCH):
            numbers = torch.arange(first, min(first + _BATCH, stop))[:, None] * 7919 + torch.arange(LENGTH)
            found += network((numbers + len(name)) % WORDS).argmax(-1).tolist()
    return found


def score(rows: list[list[int]], rounds: int) -> float:
    """The mean edit distance to some shifted answers, in plain Python: what takes a processor and no device.

    It is computed ``rounds`` times over, and is the same each time.
    """
    pairs = [(row, row[shift:] + row[:shift]) for row in rows for shift in range(1, _NEIGHBOURS + 1)]
    return [sum(_distance(one, other) for one, other in pairs) / len(pairs) for _ in range(rounds)][-1]


def _distance(one: list[int], other: list[int]) -> int:
    before = list(range(len(other) + 1))
    for row, word in enumerate(one, 1):
        now = [row]
        for column, against in enumerate(other, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (word != against)))
        before = now
    return before[-1]


def train(asked: Path) -> None:
    import torch

    place = Path(os.environ["PENSTOCK_CHECKPOINT_DIR"])
    for step in (1, 2):
        while not (asked / f"step-{step}").exists():
            time.sleep(_LOOK_EVERY_S)
        torch.save(model().state_dict(), place / f"{step}.pt")
        print(f"penstock: checkpointed step={step} path={place}/{step}.pt", flush=True)
        print(f"penstock: step={step} total=2", flush=True)


def single(name: str, checkpoint: str, rounds: int) -> None:
    import torch

    network = model()
    network.load_state_dict(torch.load(checkpoint, weights_only=True))
    print(f"penstock: distance={score(answers(network, name, 0, SETS[name]), rounds)}")


def evaluate() -> None:
    import penstock.evaluation as evaluation

    run, network = evaluation.init(), model()
    run.load(network)
    for shard in run.shards():
        rows = answers(network, shard.set, shard.start, shard.start + len(shard))
        shard.output.write_text("\n".join(map(json.dumps, rows)))


def scored(rounds: int) -> None:
    files = sorted(Path(os.environ["PENSTOCK_EVALUATION_OUTPUTS"]).iterdir())
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    print(f"penstock: distance={score(rows, rounds)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", asked]:
            train(Path(asked))
        case ["single", name, checkpoint, rounds]:
            single(name, checkpoint, int(rounds))
        case ["evaluate"]:
            evaluate()
        case ["score", rounds]:
            scored(int(rounds))
