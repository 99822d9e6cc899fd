"""The parts of one server and how they hang together: which part tells which, said in one place."""

import contextlib
import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from penstock.client import DataDir
from penstock.core import UnknownNameError, is_plugin, load_plugin
from penstock.serve.config import Config
from penstock.serve.isolation import OWNER_TENANT, tenancy_of, tenant_users
from penstock.serve.platform_clock import keep_clock, kept_clock
from penstock.serve.recovery import recover_database, recover_jobs, require_history
from penstock.tools import SteadyClock

if TYPE_CHECKING:
    from penstock.backends import Backend, LeaderLease, TenantUsers
    from penstock.control import (
        DeviceReadings,
        Journal,
        Metrics,
        Notifier,
        Platform,
        Reconciler,
        SecretRepository,
        Store,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a server runs (the loop, the readings of devices) and what it answers with (the platform, its metrics)."""

    journal: "Journal"
    reconciler: "Reconciler"
    readings: "DeviceReadings"
    metrics: "Metrics"
    platform: "Platform"
    notifier: "Notifier | None" = None
    """Whoever tells people about their jobs, if somebody is to be told."""
    leader: "LeaderLease | None" = None
    """The right to use a cluster's namespace, where the backend is one."""

    @property
    def is_replaced(self) -> bool:
        """Whether another server has claimed what this one works with: it has nothing to say any more."""
        return self.journal.store.lease.lost or (self.leader is not None and self.leader.lost)


@contextmanager
def leading(config: Config, data_dir: DataDir) -> "Iterator[LeaderLease | None]":
    """The lease of the cluster that this server uses, held."""
    if config.backend != "kubernetes":
        yield None
        return
    from penstock.backends import ClusterApi, KubernetesSettings, LeaderLease

    settings = KubernetesSettings.of(config.backend_settings)
    api = ClusterApi(context=settings.context, kubeconfig=settings.kubeconfig)
    lease = LeaderLease(api, settings.namespace, f"{socket.gethostname()} {data_dir.path}")
    with lease.kept():
        yield lease


@contextmanager
def assembled(config: Config, data_dir: DataDir) -> Iterator[Assembly]:
    """Everything on one database, settled at the end: lists and snapshot are up to date when the database is closed."""
    from penstock.control import LEASE_S, Configured, Journal, Principal, Role, Store

    if config.recover:
        recover_database(config, data_dir)
    holder = f"{socket.gethostname()} {data_dir.path}"
    with (
        contextlib.closing(Store(config.database_url, holder=holder, patience_s=LEASE_S)) as store,
        store.lease.kept(),
        leading(config, data_dir) as leader,
    ):
        tenants = tenant_users(config)
        clock = kept_clock(data_dir.path)
        backend = load_backend(config, data_dir, tenants, clock, leader)
        settings = Configured(
            at=0.0, nodes=backend.nodes(), policy=config.policy, slot=config.slot_s, overhead=config.overhead
        )
        require_history(store, config, data_dir)
        journal = Journal(store, clock, stand_in=settings)
        parts = replace(assemble(config, journal, backend, data_dir, tenants), leader=leader)
        before = journal.state.settings
        parts.reconciler.begin(settings)
        now = journal.state.settings
        if before is not None and now is not None and before.policy != now.policy:
            operator = Principal(id="", name="configuration", role=Role.ADMIN, tenant="default")
            parts.platform.audit.write(operator, "switch policy", f"{before.policy} to {now.policy}")
        if config.recover and config.backend == "local":
            recover_jobs(journal, config, backend.nodes())
        data_dir.note_last_entry(journal.seq)
        keep_clock(data_dir.path, clock)
        _ensure_owner(store, data_dir, parts.journal.now())
        _collect_seldom()
        yield parts
        store.lease.check()
        parts.platform.audit.flush()
        parts.journal.publish()
        parts.journal.keep_snapshot()
        keep_clock(data_dir.path, clock)
        data_dir.note_last_entry(journal.seq)


def assemble(
    config: Config, journal: "Journal", backend: "Backend", data_dir: DataDir, tenants: "TenantUsers"
) -> Assembly:
    """The parts of a server, each told of the others; nothing runs yet."""
    from penstock.backends import inherited_environment
    from penstock.control import (
        CheckpointLinks,
        Commands,
        DeviceReadings,
        EvaluationDrafts,
        FilePlaces,
        Forecasts,
        JobReader,
        Learner,
        LearningStores,
        Metrics,
        Notifier,
        Platform,
        Predictor,
        Preparer,
        Quotas,
        Reconciler,
        RunDiagnoser,
    )

    tenancy = tenancy_of(config, journal, tenants)
    secrets = secrets_of(data_dir)
    forecasts = Forecasts(journal)
    stores = LearningStores(data_dir.path, lambda: journal.state.scheduler.cluster, journal.now)
    predicts = config.backend == "local"
    if only := journal.store.jobs.only_tenant():
        stores.adopt(only)
    around = inherited_environment(os.environ, config.pass_environment)
    predictor = Predictor(stores, predicts, tenants.of, around)
    checkpoints = config.job_files.absolute() / "checkpoints"
    reader = JobReader(
        stores, predicts=predicts, checkpoints=checkpoints, user_of=tenants.of, preflight=config.preflight
    )
    preparer = Preparer(journal, backend, stores, predictor=predictor)
    quotas = Quotas(journal.store.quotas, config.quotas, max_active_jobs=config.max_active_jobs)
    links = CheckpointLinks(checkpoints, tenants.of) if config.backend == "local" else None
    reconciler = Reconciler(
        journal, backend, Learner(stores), preparer=preparer, forecasts=forecasts,
        diagnoser=RunDiagnoser(backend, data_dir.path, on_this_machine=config.backend == "local"),
        evaluations=EvaluationDrafts(reader, links, quotas.fitted), data_dir=data_dir.path,
    )  # fmt: skip
    readings = DeviceReadings(journal, backend)
    metrics = Metrics(journal, reconciler, readings)
    journal.subscribe(metrics)
    reconciler.subscribe(metrics)
    commands = Commands(
        journal,
        reader,
        forecasts,
        reconciler.nudge,
        tenancy=tenancy,
        known_secrets=secrets.names,
        quotas=quotas,
        notify=config.notify,
    )
    places = FilePlaces(
        root=checkpoints, user_of=tenants.of, elsewhere=config.backend == "local",
        closed=(data_dir.path, config.job_files),
        memory_of=getattr(backend, "memory_of", lambda _: None),
    )  # fmt: skip
    platform = Platform(journal, reconciler, commands, forecasts, readings, secrets, places)
    notifier = None
    if config.notify is not None:
        notifier = Notifier(journal, forecasts, config.notify, data_dir.path / "notifications.json")
        journal.subscribe(notifier)
    return Assembly(
        journal=journal, reconciler=reconciler, readings=readings, metrics=metrics, platform=platform,
        notifier=notifier,
    )  # fmt: skip


def secrets_of(data_dir: DataDir) -> "SecretRepository":
    """Where this server keeps the secrets of its tenants."""
    from penstock.control import SecretRepository

    return SecretRepository(data_dir.path / "secrets")


def load_backend(
    config: Config,
    data_dir: DataDir,
    tenants: "TenantUsers",
    clock: SteadyClock,
    leader: "LeaderLease | None" = None,
) -> "Backend":
    """The backend a configuration names: one of ours, or one of somebody's own by module and factory."""
    if config.backend == "local":
        from penstock.backends import LocalBackend, discover

        slots = data_dir.slots() if config.slots is None else config.slots
        inventory = discover(slots or None)
        data_dir.note_slots(slots or 0)
        return LocalBackend(
            config.job_files, inventory, users=tenants, pass_environment=config.pass_environment,
            preparation_limit_s=config.prepare_limit_s, secret_values=secrets_of(data_dir).values, clock=clock,
        )  # fmt: skip
    if config.backend == "kubernetes":
        from penstock.backends import KubernetesBackend, KubernetesSettings

        return KubernetesBackend(
            config.job_files, KubernetesSettings.of(config.backend_settings), pass_environment=config.pass_environment,
            secret_values=secrets_of(data_dir).values, clock=clock, **({"permit": leader.check} if leader else {}),
        )  # fmt: skip
    if config.backend == "slurm":
        from penstock.backends import SlurmBackend, SlurmSettings

        return SlurmBackend(
            config.job_files, SlurmSettings.of(config.backend_settings), users=tenants,
            pass_environment=config.pass_environment, secret_values=secrets_of(data_dir).values, clock=clock,
        )  # fmt: skip
    if not is_plugin(config.backend):
        raise UnknownNameError.of(
            "backend", config.backend, ["local", "kubernetes", "slurm"], "One of your own is named module:factory"
        )
    return cast("Backend", load_plugin("backend", config.backend)(data_dir.path, **config.backend_settings))


def _ensure_owner(store: "Store", data_dir: DataDir, now: float) -> None:
    """Whoever can read the data directory owns the platform: an admin token lies there."""
    from penstock.control import Role

    stored = data_dir.owner_token()
    if stored is not None and store.tokens.check(stored) is not None:
        return
    secret, _ = store.tokens.create(name="owner", role=Role.ADMIN, tenant=OWNER_TENANT, now=now)
    data_dir.keep_owner_token(secret)


def _collect_seldom() -> None:
    """Thousands of jobs are hundreds of thousands of objects that live on: looking through all of them for garbage, as
    Python does after every few thousand new ones, would stop everybody for tenths of a second. What was read at the
    start is never looked at again, and the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
