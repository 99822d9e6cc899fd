"""Servers that decide about a handful of jobs: they run the planning loops uncompiled, because loading the compiler
takes a good part of their start. Tests of the command line and of the loops themselves keep it.
"""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def plain_loops_in_servers() -> Iterator[None]:
    from penstock.tools import has_compiler

    has_compiler()  # what this process does is settled before, and stays as it is
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_JIT", "0")
        yield
