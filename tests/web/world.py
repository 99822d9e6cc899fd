"""A platform without processes or a browser, seen through a viewer."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.control.state.store import Principal, Role
from penstock.learn import CurveStore
from penstock.web.progress_history import ProgressSampler
from penstock.web.viewer import DashboardData, Viewer
from tests.control.build import Platform, platform


@dataclass
class Seen:
    """A platform, and what different people see of it."""

    world: Platform
    data: DashboardData
    people: dict[str, Principal]

    def viewer(self, who: str) -> Viewer:
        return self.viewer_of(self.people[who])

    def viewer_of(self, who: Principal) -> Viewer:
        return Viewer(self.data, who)


@contextmanager
def seen(folder: Path) -> Iterator[Seen]:
    with platform(folder) as world:
        tokens = world.journal.store.tokens
        roles = {"admin": (Role.ADMIN, "default"), "ada": (Role.USER, "blue"), "eve": (Role.USER, "red")}
        people = {
            name: tokens.create(name=name, role=role, tenant=tenant, now=1.0)[1]
            for name, (role, tenant) in roles.items()
        }
        sampler = ProgressSampler(world.platform, folder / "trails")
        yield Seen(world, DashboardData(world.platform, sampler, CurveStore(folder / "curves.db")), people)
