"""How a server is set up: one value, checked where it is made (:mod:`penstock.serve.settings` reads it)."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from penstock.client import default_data_dir
from penstock.control import LogFormat
from penstock.core import FREE, InputError, Overhead, PreflightRule
from penstock.policies import policy_named
from penstock.simulate import refuse_replica
from penstock.web import OidcSettings

if TYPE_CHECKING:
    from penstock.control import NotifySettings, Quota

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything ``penstock serve`` can be told.

    ``port`` 0 takes a free one; clients find it in the data directory. ``database`` defaults to SQLite in the data
    directory; its password may lie in ``database_password_file``. ``backend`` is "local", "kubernetes", "slurm",
    or "module:factory" for one of your own; all but the first get ``backend_settings``. ``slots`` asks the local
    backend for processor cores instead of accelerators, and is remembered; 0 is what the machine has. ``exposed`` must
    be said aloud to listen beyond this machine. ``log_format`` is "text" or "json", else what ``PENSTOCK_LOG_FORMAT``
    says.

    ``run_as`` names the Unix users that jobs run as (one name, a pattern with ``{tenant}``, or a table from tenants to
    names); ``jobs_dir`` is where those users find their runs, outside of the data directory. Tenants whose jobs run as
    the same user are not isolated from each other: a second one is refused unless ``accept_shared_user`` says that this
    is meant. ``pass_environment`` lists variables of the server that jobs inherit besides the usual ones.

    ``preflight_from`` is from how many devices on the nodes of jobs are checked, quickly, before their workers start;
    a job file may say otherwise. None: only where one asks for it.

    ``save_on_stop_s`` is how long runs get to save their state and end before a server does that is told to stop; with
    0 they outlive it.

    ``recover`` and ``accept_loss`` are for one start whose database does not know what the data directory has seen
    (:mod:`penstock.serve.recovery`).

    ``tls_cert`` and ``tls_key`` are files in PEM; ``proxies`` are addresses or networks whose word is taken on where a
    request came from, and whether it came over TLS (``X-Forwarded-For``, ``X-Forwarded-Proto``). ``open_metrics`` lets
    everybody read ``/metrics``. ``quotas`` are limits by tenant, those of ``*`` for all others; a tenant whose
    ``active_jobs`` nobody limited has ``max_active_jobs`` at most. ``oidc`` is who vouches for people that sign in to
    the dashboard, besides tokens. ``notify`` is who is told about promises and ends of jobs, and whom
    job files may name.
    """

    data_dir: Path = field(default_factory=default_data_dir)
    host: str = "127.0.0.1"
    port: int = 0
    database: str = field(default="", repr=False)
    database_password_file: Path | None = None
    policy: str = "unified"
    slot_s: float = 0.0
    overhead: Overhead = FREE
    backend: str = "local"
    backend_settings: Mapping[str, Any] = field(default_factory=dict)
    slots: int | None = None
    exposed: bool = False
    log_format: str = ""
    every_s: float = 0.2
    max_body: int = 1 << 20
    requests_per_s: float = 50.0
    burst: int = 200
    run_as: str | Mapping[str, str] = ""
    jobs_dir: Path | None = None
    accept_shared_user: bool = False
    pass_environment: tuple[str, ...] = ()
    prepare_limit_s: float = 1800.0
    preflight_from: int | None = None
    save_on_stop_s: float = 0.0
    recover: bool = False
    accept_loss: bool = False
    max_active_jobs: int = 200_000
    max_streams: int = 2000
    max_streams_per_token: int = 200
    open_metrics: bool = False
    proxies: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    quotas: Mapping[str, "Quota"] = field(default_factory=dict)
    oidc: OidcSettings | None = None
    notify: "NotifySettings | None" = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"port {self.port}", "0 (any) to 65535")
        if self.preflight_from is not None and self.preflight_from < 1:
            raise InputError(f"preflight_from {self.preflight_from}", "1 device or more", "Leave it out to check none")
        LogFormat.named(self.log_format)
        _check_policy(self.policy)
        _check_places(self)
        _check_tls(self.tls_cert, self.tls_key)
        for proxy in self.proxies:
            _check_network(proxy)
        if self.host not in _LOOPBACK and not self.exposed:
            raise InputError(
                f"listening on {self.host} lets other machines in", "127.0.0.1 by default",
                "Say exposed as well, with --tls-cert and --tls-key or behind a proxy with TLS: tokens travel in the "
                "clear otherwise",
            )  # fmt: skip

    @property
    def job_files(self) -> Path:
        """Where runs, checkpoints and environments of jobs lie: beside the data directory once other users come there,
        because that is closed to everybody else."""
        if self.jobs_dir is not None:
            return self.jobs_dir
        return self.data_dir.with_name(f"{self.data_dir.name}-jobs") if self.run_as else self.data_dir

    @property
    def preflight(self) -> PreflightRule | None:
        """What holds for jobs that say nothing about checks of their nodes."""
        return None if self.preflight_from is None else PreflightRule(from_devices=self.preflight_from)

    @property
    def database_url(self) -> str:
        url = self.database or f"sqlite:///{self.data_dir / 'penstock.db'}"
        return url if self.database_password_file is None else _with_password(url, self.database_password_file)


def _check_places(config: Config) -> None:
    """Other users never come into the data directory, so what is theirs cannot lie in it."""
    home, jobs = config.data_dir.absolute(), config.job_files.absolute()
    if config.run_as and jobs.is_relative_to(home):
        raise InputError(
            f"jobs_dir {jobs} inside of the data directory, which jobs that run as other users cannot enter",
            "a directory outside of it", "Leave jobs_dir out to use the one beside it",
        )  # fmt: skip


def _with_password(url: str, file: Path) -> str:
    """The URL with the password in a file; one that stands in it already is replaced."""
    try:
        password = file.read_text().strip()
    except OSError as error:
        raise InputError(
            f"database_password_file {file} cannot be read: {error.strerror}", "a file with the password"
        ) from None
    parts = urlsplit(url)
    if not parts.username:
        raise InputError("database_password_file beside a URL without a user", "postgresql+psycopg://USER@HOST/NAME")
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:{quote(password, safe='')}@{where}"))


def _check_tls(cert: Path | None, key: Path | None) -> None:
    """A certificate comes with its key, and both can be read and belong together."""
    if cert is None and key is None:
        return
    if cert is None or key is None:
        raise InputError("one of tls_cert and tls_key", "both, or neither", "Give the certificate and its key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
    except OSError as error:
        raise InputError(
            f"{cert} and {key} cannot be used for TLS: {error}", "a certificate in PEM and the key it was made with",
            "Check both files",
        ) from None  # fmt: skip


def _check_network(text: str) -> None:
    try:
        ip_network(text)
    except ValueError:
        raise InputError(f"proxies: {text!r}", "addresses or networks such as 10.0.0.0/8") from None


def _check_policy(name: str) -> None:
    """A policy that decides for real jobs: known, and no replica of somebody else's simulator."""
    refuse_replica(name)
    policy_named(name)
