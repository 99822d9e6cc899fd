"""The light client: the platform from outside over HTTP, and a local server found or started by itself."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.client.datadir import Address, AlreadyServedError, DataDir, default_data_dir
    from penstock.client.http import Client, LogPiece
    from penstock.client.local_server import ServerStartError, ensure_server, reach
    from penstock.client.metric_exports import MetricFormat, export_metrics
    from penstock.client.metric_exports.csv_file import write_table
    from penstock.client.node_checks import CheckedNode, check_nodes
    from penstock.client.profile_job import probe

__all__ = [
    "Address",
    "AlreadyServedError",
    "CheckedNode",
    "Client",
    "DataDir",
    "LogPiece",
    "MetricFormat",
    "ServerStartError",
    "check_nodes",
    "default_data_dir",
    "ensure_server",
    "export_metrics",
    "probe",
    "reach",
    "write_table",
]

__getattr__ = lazy_door(__name__)
