"""A platform without processes or a browser, seen through a window."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.control.api import Services
from penstock.control.state.store import Principal, Role
from penstock.web.platform_view import Deck, Window
from penstock.web.progress_history import Trails
from tests.control.build import Platform, platform


@dataclass
class Seen:
    """A platform, and what different people see of it."""

    world: Platform
    deck: Deck
    people: dict[str, Principal]

    def window(self, who: str) -> Window:
        return Window(self.deck, self.people[who])


@contextmanager
def seen(folder: Path) -> Iterator[Seen]:
    with platform(folder) as world:
        services = Services(world.journal, world.reconciler, world.desk)
        tokens = world.journal.store.tokens
        roles = {"admin": (Role.ADMIN, "default"), "ada": (Role.USER, "blue"), "eve": (Role.USER, "red")}
        people = {
            name: tokens.create(name=name, role=role, tenant=tenant, now=1.0)[1]
            for name, (role, tenant) in roles.items()
        }
        yield Seen(world, Deck(services, Trails(services, folder / "trails"), folder), people)
