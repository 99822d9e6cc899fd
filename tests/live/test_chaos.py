"""A minute of misfortune, as ``tests.live.chaos`` deals it. ``PENSTOCK_CHAOS_SEED`` chooses another seed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.chaos import BLOWS, SLOTS, survive
from tests.live.site import Site

SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "7"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, SLOTS)
    try:
        yield site
    finally:
        site.close()


@pytest.mark.long
def test_whatever_is_killed_every_job_ends_once_and_every_sample_counts_once(site: Site) -> None:
    dealt = survive(site, SEED)
    assert {blow: dealt[blow] for blow in BLOWS} == BLOWS
