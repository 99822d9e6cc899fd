"""What every backend must do, as tests to run against one's own: subclass a suite and say how the backend is opened.

::

    class TestMine(ProcessConformance):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda: MyBackend(tmp_path)

:class:`BackendContract` holds for everything that obeys the protocol, also for one that only pretends to run something;
:class:`ProcessConformance` adds what people see of processes that really run: their environment, output, signals and
exit codes. Needs pytest, which nothing else in the package does.
"""

from penstock.backends.testing.contract import BackendContract
from penstock.backends.testing.node_faults import NodeFaults
from penstock.backends.testing.processes import ProcessConformance
from penstock.backends.testing.watching import (
    cpu_worker,
    kinds,
    make_launch,
    output,
    status,
    until,
    wait_for,
    wait_for_end,
    wait_for_output,
    workers_on,
)

__all__ = [
    "BackendContract",
    "NodeFaults",
    "ProcessConformance",
    "cpu_worker",
    "kinds",
    "make_launch",
    "output",
    "status",
    "until",
    "wait_for",
    "wait_for_end",
    "wait_for_output",
    "workers_on",
]
