"""A prediction runs without the laboratory and without what only the laboratory needs."""

import subprocess
import sys

PREDICTS = """
import sys

for name in ("sklearn", "scipy", "threadpoolctl", "penstock.predict.lab"):
    sys.modules[name] = None  # importing any of them fails

from penstock.predict import Setup, load_hook, predict_model, profile_named

seen = predict_model(load_hook("resnet18"), 8, profile_named("h200"), Setup(optimizer="sgd"))
assert profile_named("h200").measured
print(seen.first.seconds)
"""


def test_a_prediction_needs_no_laboratory() -> None:
    done = subprocess.run([sys.executable, "-c", PREDICTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 1e-4 < float(done.stdout) < 1.0
