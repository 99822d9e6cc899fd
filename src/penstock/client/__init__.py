"""The light client: the platform from outside over HTTP, and a local server found or started by itself."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.client.datadir import Address, AlreadyServedError, DataDir, default_data_dir
    from penstock.client.http import Client, LogPiece
    from penstock.client.local_server import ServerStartError, ensure_server, reach
    from penstock.client.profile_job import probe

__all__ = [
    "Address",
    "AlreadyServedError",
    "Client",
    "DataDir",
    "LogPiece",
    "ServerStartError",
    "default_data_dir",
    "ensure_server",
    "probe",
    "reach",
]

__getattr__ = lazy_door(__name__)
