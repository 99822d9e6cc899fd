"""Plans with what is expected of them: the candidates of one request, their ranking, and the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from penstock.core import ParallelPlan, why_not_executable
from penstock.parallel.devices import ChipMesh, Trainer
from penstock.parallel.families import Family
from penstock.parallel.full_cost import Prediction


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A plan, where it came from, and what is expected of it."""

    origin: str
    plan: ParallelPlan
    prediction: Prediction

    @property
    def iteration_s(self) -> float:
        return self.prediction.iteration_s

    @property
    def trainer(self) -> Trainer:
        """What was assumed of the trainer when the plan was priced."""
        return self.prediction.stages[0].view.mesh.trainer

    @property
    def fp8(self) -> bool:
        return self.trainer.fp8


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The answer. ``uniform`` is the best plan a trainer's flags could say; ``tried`` counts plans by origin.

    ``bound_s``: no plan can be faster than all devices working on the cheapest split of every operator all the time.
    """

    family: Family
    mesh: ChipMesh
    best: Candidate
    uniform: Candidate | None
    others: tuple[Candidate, ...]
    tried: dict[str, int]
    bound_s: float
    seconds: float
    costs_from: str

    @property
    def plan(self) -> ParallelPlan:
        return self.best.plan

    @property
    def prediction(self) -> Prediction:
        return self.best.prediction

    @property
    def fp8(self) -> bool:
        """Whether linear layers are computed in fp8."""
        return self.best.fp8

    @property
    def fits(self) -> bool:
        return self.prediction.memory_bytes <= self.mesh.memory_bytes

    @property
    def gap(self) -> float:
        """How far the plan is from the bound, as a share of the plan's time."""
        return 1.0 - self.bound_s / self.best.iteration_s

    @cached_property
    def export_only(self) -> str | None:
        """Why our runtime cannot run the plan, or None if it can."""
        return why_not_executable(self.plan)


class Ranking:
    """The candidates so far, each plan once; those that nobody could use are not ranked."""

    def __init__(self, on_better: Callable[[Candidate], None] | None, accepts: Callable[[ParallelPlan], bool]) -> None:
        self._on_better = on_better
        self._accepts = accepts
        self._all: dict[ParallelPlan, Candidate] = {}
        self.tried: dict[str, int] = {}
        self.best: Candidate | None = None

    def offer(self, candidate: Candidate) -> None:
        if not self._accepts(candidate.plan):
            return
        self.tried[candidate.origin] = self.tried.get(candidate.origin, 0) + 1
        self._all.setdefault(candidate.plan, candidate)
        if self.best is None or candidate.iteration_s < self.best.iteration_s:
            self.best = candidate
            if self._on_better:
                self._on_better(candidate)

    def ranked(self) -> list[Candidate]:
        return sorted(self._all.values(), key=lambda candidate: candidate.iteration_s)
