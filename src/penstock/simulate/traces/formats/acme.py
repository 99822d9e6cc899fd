"""The traces of Acme (Hu et al., NSDI 2024), two clusters on which large models are developed: ``trace_kalos.csv``.

The user is the tenant, and what kind of work a job was (pretraining, evaluation, debugging, …) is its type.
"""

from penstock.simulate.traces.files import Table
from penstock.simulate.traces.formats.job_log import COLUMNS, read_log
from penstock.simulate.traces.records import Trace

NAME = "acme"
REQUIRED = (*COLUMNS, ("user",), ("type",), ("queue",))


def read(table: Table) -> Trace:
    return read_log(table, NAME, tenant="user")
