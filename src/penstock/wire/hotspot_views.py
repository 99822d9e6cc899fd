"""Where the time of a job's steps goes, on the wire. All times are seconds of one step."""

from datetime import datetime

from pydantic import Field

from penstock.wire.views import WireModel


class OperatorView(WireModel):
    """What one operator or kernel takes of a step."""

    name: str
    seconds: float
    calls: float


class HotspotsView(WireModel):
    """A profile of a few steps of the first worker. The five parts add up to ``step_s``."""

    step: int = Field(description="The first step that was profiled.")
    steps: int
    device: str
    step_s: float
    input_s: float = Field(description="Fetching samples.")
    host_s: float = Field(description="Python, launches, waiting: what nothing else explains.")
    kernels_s: float = Field(description="Computing: kernels of a GPU, operators of a CPU.")
    communication_s: float = Field(description="Exchanges that no computing hides.")
    checkpoint_s: float = Field(description="What checkpoints hold training up, as a mean over all steps.")
    cost: float = Field(description="The share of the run's time that profiles have taken.")
    operators: list[OperatorView]


class WorkerTimesView(WireModel):
    """The steps of one worker lately, as medians; who is slow waits least."""

    worker: str
    rank: int
    place: str
    step: int
    step_s: float
    compute_s: float
    input_s: float
    wait_s: float = Field(description="In the exchange of gradients, after its own were complete.")
    slower: float | None = Field(default=None, description="By how much it lags behind the others, if it does.")


class JobHotspotsView(WireModel):
    """Where the time of a job's steps goes; ``note`` says why there is nothing to see yet, or never will be."""

    job_id: str
    name: str
    run_id: str = ""
    at: datetime | None = None
    profile: HotspotsView | None = None
    workers: list[WorkerTimesView] = Field(default=[])
    stacks: str = Field(default="", description="Where the latest stacks of its workers are, on the server's machine.")
    note: str = ""
