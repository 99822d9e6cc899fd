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

SETS = {"arc": 24, "boolq": 40, "code": 64, "gsm": 16, "hellaswag": 128, "lambada": 32, "mmlu": 176, "piqa": 56}
LENGTH, WORDS, WIDTH, DEPTH = 64, 2000, 512, 6
_BATCH = 8
_LOOK_EVERY_S = 0.05


def model():
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    return nn.Sequential(
        nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, DEPTH), nn.Linear(WIDTH, WORDS)
    ).eval()


def answers(network, name: str, start: int, stop: int) -> list[list[int]]:
    """What the model makes of some samples; they follow from their data set and number."""
    import torch

    found: list[list[int]] = []
    with torch.inference_mode():
        for first in range(start, stop, _BATCH):
            numbers = torch.arange(first, min(first + _BATCH, stop))[:, None] * 7919 + torch.arange(LENGTH)
            found += network((numbers + len(name)) % WORDS).argmax(-1).tolist()
    return found


def score(rows: list[list[int]]) -> float:
    """The mean edit distance between neighbours, in plain Python: what takes a processor and no device."""
    total = 0
    for one, other in zip(rows, rows[1:] + rows[:1], strict=True):
        before = list(range(len(other) + 1))
        for row, word in enumerate(one, 1):
            now = [row]
            for column, against in enumerate(other, 1):
                now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (word != against)))
            before = now
        total += before[-1]
    return total / len(rows)


def train(asked: Path) -> None:
    import torch

    place = Path(os.environ["PENSTOCK_CHECKPOINT_DIR"])
    for step in (1, 2):
        while not (asked / f"step-{step}").exists():
            time.sleep(_LOOK_EVERY_S)
        torch.save(model().state_dict(), place / f"{step}.pt")
        print(f"penstock: checkpointed step={step} path={place}/{step}.pt", flush=True)
        print(f"penstock: step={step} total=2", flush=True)


def single(name: str, checkpoint: str) -> None:
    import torch

    network = model()
    network.load_state_dict(torch.load(checkpoint, weights_only=True))
    print(f"penstock: distance={score(answers(network, name, 0, SETS[name]))}")


def evaluate() -> None:
    import penstock.evaluation as evaluation

    run, network = evaluation.init(), model()
    run.load(network)
    for shard in run.shards():
        rows = answers(network, shard.set, shard.start, shard.start + len(shard))
        shard.output.write_text("\n".join(map(json.dumps, rows)))


def scored() -> None:
    files = sorted(Path(os.environ["PENSTOCK_EVALUATION_OUTPUTS"]).iterdir())
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    print(f"penstock: distance={score(rows)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", asked]:
            train(Path(asked))
        case ["single", name, checkpoint]:
            single(name, checkpoint)
        case ["evaluate"]:
            evaluate()
        case ["score"]:
            scored()
