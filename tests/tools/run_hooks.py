"""Hooks of every run of these tests: interrupts are heard, nothing is left running, and a test whose browser fell
silent is run once more, in a new browser. A page of ours that hangs is silent there too; the summary names those tests.
"""

from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.tools.processes import Guard, hear_interrupts_again

_AGAIN = "run again"
_GUARD = pytest.StashKey[Guard]()


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts_again()
    if not hasattr(config, "workerinput"):
        config.stash[_GUARD] = Guard()


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.end()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not {"browser", "browsers"} & set(getattr(item, "fixturenames", ())):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    lines = (line for report in reports for line in report.longreprtext.splitlines())
    if silence := next((line for line in lines if "SilentBrowserError: " in line), ""):
        item.user_properties.append((_AGAIN, silence))
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, silence in report.user_properties:
            if name == _AGAIN:
                terminalreporter.write_line(f"RUN AGAIN {report.nodeid}: {silence}")
