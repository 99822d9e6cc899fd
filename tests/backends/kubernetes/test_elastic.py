"""Elastic training across two nodes of a cluster: resized in place, and going on without a pod that was killed."""

from pathlib import Path

from tests.backends.kubernetes.backends import backend_on
from tests.backends.kubernetes.elastic_run import STEPS, elastic_story
from tests.backends.test_tcp_line import batches
from tests.tools.kubernetes import Testbed


def test_a_run_over_two_nodes_is_resized_in_place_and_survives_a_killed_pod(testbed: Testbed, tmp_path: Path) -> None:
    with backend_on(testbed, tmp_path / "state", schedule_timeout_s=60.0) as backend:
        story = elastic_story(testbed, backend, tmp_path / "work")
    assert (story.grown.width, story.grown.in_place) == (3, True)
    assert (story.survived.width, story.survived.in_place) == (2, True)
    assert len(batches(tmp_path / "work")) == STEPS
