from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.agent import Agent, Zygote
from tests.runtime.buckets import bucket, server

__all__ = ["bucket", "server"]

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    warm = Zygote()
    yield warm
    warm.close()


def _launcher(zygote: Zygote, folders: pytest.TempPathFactory) -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def make(*arguments: str, script: str = "train.py") -> Agent:
        agents.append(Agent(zygote, folders.mktemp("run"), SCRIPTS / script, *arguments))
        return agents[-1]

    yield make
    for agent in agents:
        agent.close()


@pytest.fixture
def launch(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Agent]]:
    """Makes agents for a script; whatever they started ends with the test."""
    yield from _launcher(zygote, tmp_path_factory)


@pytest.fixture(scope="module")
def launch_module(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Agent]]:
    """The same for runs that several tests look at."""
    yield from _launcher(zygote, tmp_path_factory)
