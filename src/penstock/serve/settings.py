"""How a server's configuration comes together: file, then environment, then flags, each over the one before.

A file is TOML: ``--config FILE``, else ``$PENSTOCK_CONFIG``, else ``penstock.toml`` in the data directory. A key is
spelled the same everywhere: ``log_format`` in the file is ``PENSTOCK_LOG_FORMAT`` in the environment and
``--log-format`` on the command line. A key that is not known is refused, with the nearest one that is.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.client import default_data_dir
from penstock.core import InputError, UnknownNameError, parse_duration
from penstock.serve.config import Config
from penstock.web import OidcSettings

if TYPE_CHECKING:
    from penstock.control import NotifySettings, Quota

FILE_NAME = "penstock.toml"
FILE_VARIABLE = "PENSTOCK_CONFIG"
_PREFIX = "PENSTOCK_"
_TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def load_config(
    flags: Mapping[str, Any] | None = None, *, file: Path | None = None, environ: Mapping[str, str] | None = None
) -> Config:
    """The configuration of a server; ``flags`` are those that were given, by key."""
    environ = os.environ if environ is None else environ
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    variables = {key: environ[_PREFIX + key.upper()] for key in KEYS if environ.get(_PREFIX + key.upper())}
    path = file or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if path is None:
        path = Path(given.get("data_dir") or default_data_dir(environ)) / FILE_NAME
        values = read_file(path) if path.exists() else {}
    else:
        values = read_file(path)
    _refuse_password(given.get("database"))
    read = [_fields(values, str(path)), _fields(variables, "the environment"), _fields(given, "the command line")]
    merged = read[0] | read[1] | read[2]
    tables = [one["backend_settings"] for one in read if "backend_settings" in one]
    if tables:
        merged["backend_settings"] = {key: value for table in tables for key, value in table.items()}
    return Config(**({"data_dir": default_data_dir(environ)} | merged))


def _refuse_password(database: Any) -> None:
    """Whoever is on this machine reads command lines in its process list."""
    if isinstance(database, str) and urlsplit(database).password:
        raise InputError(
            "--database with a password: every user of this machine can read it in the process list",
            "a URL without a password on the command line",
            "Put the whole URL into $PENSTOCK_DATABASE or penstock.toml, or the password into a file that "
            "database_password_file names",
        )  # fmt: skip


def read_file(path: Path) -> dict[str, Any]:
    """The keys and values of a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "a file in TOML", "Check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}", 'lines such as policy = "deadline"') from None


def _fields(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The fields of :class:`Config` that these keys set."""
    fields: dict[str, Any] = {}
    for key, value in values.items():
        if key not in KEYS:
            raise UnknownNameError.of(f"key in {source}:", key, KEYS)
        field, read = KEYS[key]
        try:
            fields[field] = read(value)
        except (ValueError, TypeError, AttributeError, InputError) as error:
            allowed = error.allowed if isinstance(error, InputError) and error.allowed else _EXPECTED[read]
            raise InputError(f"{key} = {value!r} in {source}", allowed, f"Set {key} to {allowed}") from None
    return fields


def _text(value: Any) -> str:
    if not isinstance(value, str | Path):
        raise ValueError
    return str(value)


def _path(value: Any) -> Path:
    return Path(_text(value)).expanduser()


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if str(value).lower() not in _TRUTHS:
        raise ValueError
    return _TRUTHS[str(value).lower()]


def _duration(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else parse_duration(value)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _names(value: Any) -> tuple[str, ...]:
    """A list in the file, or names with commas between them."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError
    return tuple(part.strip() for part in parts if part.strip())


def _users(value: Any) -> str | Mapping[str, str]:
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value.values()):
        return value
    return _text(value)


def _quotas(value: Any) -> Mapping[str, "Quota"]:
    from penstock.control import Quota
    from penstock.wire import QuotaRequest

    return {tenant: Quota(**QuotaRequest.model_validate(limits).model_dump()) for tenant, limits in value.items()}


def _notify(value: Any) -> "NotifySettings":
    from penstock.control import NotifySettings

    return NotifySettings.of(value)


def _oidc(value: Any) -> OidcSettings:
    if not isinstance(value, dict):
        raise ValueError
    return OidcSettings.of(value)


_EXPECTED: dict[Callable[[Any], Any], str] = {
    _text: "text", _path: "a path", _integer: "a whole number", _number: "a number", _truth: "true or false",
    _duration: 'a duration such as "30s"', _table: "a table",
    _names: "a list of names", _users: "a user's name, or a table from tenants to names",
    _notify: "a table with rules, allow and smtp",
    _oidc: "a table with issuer and client_id",
    _quotas: "a table for each tenant with active_jobs, devices or requests_per_s",
}  # fmt: skip

KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "data_dir": ("data_dir", _path),
    "host": ("host", _text),
    "port": ("port", _integer),
    "database": ("database", _text),
    "database_password_file": ("database_password_file", _path),
    "policy": ("policy", _text),
    "slot": ("slot_s", _duration),
    "backend": ("backend", _text),
    "backend_settings": ("backend_settings", _table),
    "slots": ("slots", _integer),
    "exposed": ("exposed", _truth),
    "log_format": ("log_format", _text),
    "every": ("every_s", _duration),
    "max_body": ("max_body", _integer),
    "requests_per_s": ("requests_per_s", _number),
    "burst": ("burst", _integer),
    "run_as": ("run_as", _users),
    "jobs_dir": ("jobs_dir", _path),
    "accept_shared_user": ("accept_shared_user", _truth),
    "pass_environment": ("pass_environment", _names),
    "prepare_limit": ("prepare_limit_s", _duration),
    "preflight_from": ("preflight_from", _integer),
    "save_on_stop": ("save_on_stop_s", _duration),
    "recover": ("recover", _truth),
    "accept_loss": ("accept_loss", _truth),
    "max_active_jobs": ("max_active_jobs", _integer),
    "max_streams": ("max_streams", _integer),
    "max_streams_per_token": ("max_streams_per_token", _integer),
    "open_metrics": ("open_metrics", _truth),
    "proxies": ("proxies", _names),
    "tls_cert": ("tls_cert", _path),
    "tls_key": ("tls_key", _path),
    "quotas": ("quotas", _quotas),
    "oidc": ("oidc", _oidc),
    "notify": ("notify", _notify),
}
"""What can be configured: by key, the field of :class:`Config` and how a value is read."""
