"""The traces of Helios (Hu et al., SC 2021) as Slurm logged them: ``cluster_log.csv`` of one cluster.

The virtual cluster is the tenant.
"""

from penstock.simulate.traces.files import Table
from penstock.simulate.traces.formats.job_log import COLUMNS, read_log
from penstock.simulate.traces.records import Trace

NAME = "helios"
REQUIRED = (*COLUMNS, ("vc",), ("node_num",))


def read(table: Table) -> Trace:
    return read_log(table, NAME, tenant="vc")
