"""Logs of runs that nothing is wrong with, and text that is no log, are given no category."""

import tomllib
from pathlib import Path

import pytest

from penstock.diagnose import Doctor, text_source

DOCTOR = Doctor.shipped()
HEALTHY = tomllib.loads(Path(__file__).with_name("healthy.toml").read_text())["log"]


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log["name"])
def test_nothing_is_named_in_a_healthy_log(log: dict[str, str]) -> None:
    found = DOCTOR.diagnose([text_source(log["text"])])
    assert (found.category, found.confidence) == ("unknown", 0.0)


def test_binary_data_is_no_failure() -> None:
    assert DOCTOR.diagnose([text_source(bytes(range(256)) * 100)]).category == "unknown"


# Lines that a healthy run writes with every step: an anchor in one of them would have a regex tried on most of a log.
EVERY_STEP = """
iteration 1200/ 500000 | elapsed time per iteration (ms): 612.3 | lm loss: 2.345E+00 | loss scale: 1.0 |
learning rate: 1.5E-04 | grad norm: 0.3 | number of skipped iterations:   0 | number of nan iterations:   0 |
node1:2152176:2152299 [1] NCCL INFO Channel 01/04 : 1[0] -> 2[1] [send] via NET/IB/0/GDRDMA
Epoch 3:  45%|####5     | 5400/12000 [01:02<01:15, 45.1it/s, loss=2.1, v_num=3]
{'loss': 1.2345, 'grad_norm': 0.8, 'learning_rate': 1.9e-05, 'epoch': 0.12}
2026-03-01 12:00:00,123 - mmdet - INFO - Epoch [1][50/9370] lr: 1.0e-04, eta: 2 days, 1:02:03, time: 0.569, loss: 1.2
[INFO|trainer.py:2078] 2026-03-01 12:00:00,123 >> Saving model checkpoint to out/checkpoint-500
INFO:tensorflow:global_step/sec: 12.3
INFO:tensorflow:loss = 2.1, step = 1200 (8.123 sec)
1875/1875 [==============================] - 5s 2ms/step - loss: 0.2 - accuracy: 0.9 - val_loss: 0.1
(RayTrainWorker pid=4321, ip=10.0.0.2) step 1200 loss 2.1 throughput 12345 tokens/s
[2026-03-01 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=1200, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]
[Rank 0] (after 1200 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0 | max reserved: 4.0
Train: 12 [ 400/1251 ( 32%)]  Loss: 3.1 (3.2)  Time: 0.4s, 600.1/s  (0.5s, 590.2/s)  LR: 1.0e-03  Data: 0.01 (0.02)
""".strip().splitlines()


@pytest.mark.parametrize("line", EVERY_STEP, ids=lambda line: line[:20])
def test_no_anchor_is_in_what_every_step_writes(line: str) -> None:
    lower = line.lower()
    anchors = {anchor for signature in DOCTOR.catalogue.signatures.values() for anchor in signature.anchors}
    assert [anchor for anchor in anchors if anchor.lower() in lower] == []
