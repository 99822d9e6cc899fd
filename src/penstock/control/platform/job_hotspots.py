"""Where the time of a job's steps goes, read from where the agents of its runs wrote it when somebody asks."""

from collections.abc import Sequence
from dataclasses import asdict

from penstock.backends import Backend
from penstock.core import RunWatch, WorkerTimes
from penstock.wire import HotspotsView, JobHotspotsView, WorkerTimesView, stamp

NOTHING_YET = (
    "nothing was measured yet: scripts that use penstock.elastic are timed from their first seconds on, and profiled"
    " once a run is a minute old; other scripts are not"
)
NO_PROFILE = "no profile yet: the first is made when a run is about a minute old, unless the job file has it off"


def hotspots_view(backend: Backend, job_id: str, name: str, runs: Sequence[str]) -> JobHotspotsView:
    """What the latest of a job's runs that was looked at tells."""
    for run_id in reversed(runs):
        if (seen := backend.watched(run_id)) is not None:
            return _view(seen, job_id, name, run_id)
    return JobHotspotsView(job_id=job_id, name=name, note=NOTHING_YET)


def _view(seen: RunWatch, job_id: str, name: str, run_id: str) -> JobHotspotsView:
    profile = None if seen.hotspots is None else HotspotsView.model_validate(asdict(seen.hotspots))
    return JobHotspotsView.model_validate({
        "job_id": job_id, "name": name, "run_id": run_id, "at": stamp(seen.at), "profile": profile,
        "workers": [_worker(one) for one in seen.workers], "stacks": seen.stacks,
        "note": "" if profile else NO_PROFILE,
    })  # fmt: skip


def _worker(one: WorkerTimes) -> WorkerTimesView:
    times = one.times
    return WorkerTimesView(
        worker=one.worker, rank=one.rank, place=one.place, step=times.step, step_s=times.step_s,
        compute_s=times.compute_s, input_s=times.input_s, wait_s=times.wait_s, slower=one.slower,
    )  # fmt: skip
