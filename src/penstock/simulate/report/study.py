"""The same jobs under several policies, on one clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import Job
from penstock.policies import Floats
from penstock.simulate.comparison import Setting
from penstock.simulate.engine import Result
from penstock.simulate.report.arrays import Crowd, Outcomes
from penstock.simulate.report.series import Clockwork, devices_held, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One comparison: everything the page is made from."""

    name: str
    setting: Setting
    seed: int
    crowd: Crowd
    runs: Sequence[Outcomes]
    clock: Clockwork

    @classmethod
    def of(
        cls, name: str, jobs: Sequence[Job], setting: Setting, results: Sequence[Result], *, seed: int = 0
    ) -> "Study":
        crowd = Crowd.of(jobs, setting.cluster)
        runs = [Outcomes.of(result, crowd) for result in results]
        return cls(
            name=name, setting=setting, seed=seed, crowd=crowd, runs=runs, clock=Clockwork.of(crowd, runs)
        )  # fmt: skip

    @property
    def devices(self) -> int:
        return self.setting.cluster.device_count

    def use(self, run: Outcomes) -> Floats | None:
        """Share of devices held over time, where it is known who ran where."""
        return None if run.timeline is None else devices_held(run.timeline, self.clock) / self.devices

    def queue(self, run: Outcomes) -> Floats:
        """Jobs waiting for their first device over time."""
        return waiting(self.crowd, run, self.clock)
