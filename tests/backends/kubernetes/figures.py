"""``python -m tests.backends.kubernetes.figures``: how fast a cluster is used, on a real control plane of this machine.

* from a launch to its pods in the API, for runs of one worker after one another;
* the pause of growing in place from two nodes' two workers to three, and of going on without a killed pod.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from penstock.backends import KubernetesBackend
from penstock.backends.testing import make_launch, until, workers_on
from penstock.core import DeviceSlot
from tests.backends.kubernetes.backends import backend_on
from tests.backends.kubernetes.elastic_run import elastic_story
from tests.tools.kubernetes import Testbed, opened_testbed, shared_control_plane
from tests.tools.processes import Guard

LAUNCHES = 20
ROUNDS = 3


def creation_s(testbed: Testbed, backend: KubernetesBackend, number: int) -> float:
    """Seconds until the API lists the pods of a run of two workers on two nodes."""
    run_id = f"launch-{number}"
    workers = workers_on([DeviceSlot(node, 0) for node in testbed.nodes])
    began = time.monotonic()
    backend.launch(make_launch(backend, ("sleep", "600"), run_id=run_id, workers=workers))
    until(lambda: len(testbed.pods()) == 2, "the pods")
    took = time.monotonic() - began
    backend.stop(run_id, 0.0)
    until(lambda: not testbed.pods(), "their end")
    return took


def main() -> int:
    guard = Guard()
    with tempfile.TemporaryDirectory() as place:
        try:
            plane = shared_control_plane(Path(place) / "control-plane")
            with (
                opened_testbed(plane, Path(place), [{"nvidia.com/gpu": "2"}] * 2) as testbed,
                backend_on(testbed, Path(place) / "state", schedule_timeout_s=60.0) as backend,
            ):
                creation_s(testbed, backend, -1)
                created = sorted(creation_s(testbed, backend, number) for number in range(LAUNCHES))
                print(f"launch to pods created: median {statistics.median(created):.2f} s, worst {created[-1]:.2f} s")
                for number in range(ROUNDS):
                    story = elastic_story(testbed, backend, Path(place) / f"work-{number}", f"elastic-{number}")
                    print(f"grown in {story.grown.pause_s:.2f} s, a killed pod cost {story.survived.pause_s:.2f} s")
        finally:
            guard.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
