"""The live platform: one journal, one loop, one API.

Opening this door is cheap; a server's own parts (database, web framework) are imported when one starts.
"""

try:
    from penstock.control.client import Client, LogPiece, ServerStartError, ensure_server, reach
except ImportError as _problem:
    raise ImportError(f'the live platform needs {_problem.name}: pip install "penstock[live]"') from _problem
from penstock.control.config import Config, default_data_dir
from penstock.control.datadir import Address, AlreadyServedError, DataDir
from penstock.control.problems import (
    ConflictError,
    ForbiddenError,
    MissingError,
    RequestError,
    TooLargeError,
    TooManyError,
    UnauthorizedError,
    UnavailableError,
)
from penstock.control.server import serve

__all__ = [
    "Address",
    "AlreadyServedError",
    "Client",
    "Config",
    "ConflictError",
    "DataDir",
    "ForbiddenError",
    "LogPiece",
    "MissingError",
    "RequestError",
    "ServerStartError",
    "TooLargeError",
    "TooManyError",
    "UnauthorizedError",
    "UnavailableError",
    "default_data_dir",
    "ensure_server",
    "reach",
    "serve",
]
