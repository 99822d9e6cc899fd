"""An elastic run over two nodes that grows, loses a pod and ends: what tests look at and figures measure."""

import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.backends import KubernetesBackend
from penstock.backends.testing import make_launch, output, wait_for, wait_for_end, workers_on
from penstock.core import DeviceSlot, Report, ReportKind
from tests.tools.kubernetes import Testbed

SCRIPT = Path(__file__).parents[2] / "runtime" / "scripts" / "train.py"
STEPS = 150


@dataclass(frozen=True, slots=True)
class ElasticStory:
    grown: Report
    """From two workers on two nodes to three."""
    survived: Report
    """Without a pod that was killed."""


def elastic_story(testbed: Testbed, backend: KubernetesBackend, folder: Path, run_id: str = "run-1") -> ElasticStory:
    """``folder`` is the working directory, where the script leaves what it did."""
    left, right = testbed.nodes[:2]
    folder.mkdir()
    places = [DeviceSlot(left, 0), DeviceSlot(right, 0), DeviceSlot(right, 1)]
    command = (sys.executable, str(SCRIPT), "--steps", str(STEPS), "--sleep", "0.5", "--hurry", "now")
    values = {"working_dir": str(folder), "env": (("OMP_NUM_THREADS", "1"),), "run_id": run_id}
    backend.launch(make_launch(backend, command, workers=workers_on(places[:2]), **values))
    wait_for(backend, run_id, ReportKind.PROGRESS)
    backend.resize(run_id, workers_on(places), 1)
    grown = wait_for(backend, run_id, ReportKind.RESIZED, generation=1)
    wait_for(backend, run_id, ReportKind.PROGRESS, generation=1)
    victim = next(pod for pod in testbed.pods() if pod["metadata"]["labels"]["penstock.dev/worker"] == "w1")
    testbed.rest.delete(testbed.pod_path(victim["metadata"]["name"]), gracePeriodSeconds=0)
    survived = wait_for(backend, run_id, ReportKind.RESIZED, width=2)
    wait_for(backend, run_id, ReportKind.PROGRESS, generation=survived.generation)
    (folder / "now").touch()
    assert wait_for_end(backend, run_id).kind is ReportKind.FINISHED, output(backend, run_id)
    return ElasticStory(grown, survived)
