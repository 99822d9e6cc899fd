"""Hooks of every run of these tests: interrupts are heard, no process and no temporary file is left, every skip says
how to run the test, and a test whose browser fell silent is run once more, in a new browser. A page of ours that
hangs is silent there too; the summary names those tests.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.tools import needs
from tests.tools.processes import Guard, hear_interrupts_again
from tests.tools.temporary_files import TemporaryFiles, left_behind

_AGAIN = "run again"
_LEFT = "left behind"
_GUARD = pytest.StashKey[Guard]()
_FILES = pytest.StashKey[TemporaryFiles]()
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts_again()
    config.stash[_FILES] = TemporaryFiles(config)
    if not hasattr(config, "workerinput"):
        config.stash[_GUARD] = Guard(config.stash[_FILES].run)


def pytest_unconfigure(config: pytest.Config) -> None:
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.end()
        if not _keeps_files(config):
            config.stash[_FILES].remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    return needs.explained((yield))  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    return needs.explained((yield))  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield
    item.config.stash[_FILES].look(item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _report_left(node.config, getattr(node, "workeroutput", {}).get(_LEFT, {}))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    left = session.config.stash[_FILES].left()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_LEFT] = left
        return
    _report_left(session.config, left)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[_FAILED] = session.testsfailed > 0


def _report_left(config: pytest.Config, left: dict[str, str]) -> None:
    for path, test in left.items():
        config.hook.pytest_runtest_logreport(report=left_behind(path, test))


def _keeps_files(config: pytest.Config) -> bool:
    return config.stash.get(_FAILED, False) and not config.stash[_FILES].empty


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


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _keeps_files(config):
        terminalreporter.write_line(f"temporary files of this run are kept: {config.stash[_FILES].run}")
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, silence in report.user_properties:
            if name == _AGAIN:
                terminalreporter.write_line(f"RUN AGAIN {report.nodeid}: {silence}")
