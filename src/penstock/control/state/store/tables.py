"""What is kept, as tables. The log is the truth; the others are derived from it, or are about access."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

UNREADABLE = "unreadable"
"""The one key of a payload that is not JSON any more."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)


class ReadableJSON(TypeDecorator[Any]):
    """JSON of which one damaged value keeps nobody from reading the others: it comes as ``{"unreadable": …}``."""

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        read = super().result_processor(dialect, coltype)
        if read is None:
            return None

        def careful(value: Any) -> Any:
            try:
                found = read(value)
            except (ValueError, TypeError):
                found = value
            return found if isinstance(found, dict) else {UNREADABLE: str(found)}

        return careful


class SharedJSON(TypeDecorator[Any]):
    """JSON of which thousands of rows hold the same few values: each is read once, and nobody may change it."""

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        read = super().result_processor(dialect, coltype)
        return None if read is None else lru_cache(maxsize=10_000)(read)


_Number = BigInteger().with_variant(Integer(), "sqlite")

events = Table(
    "events",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("job_id", String(120)),
    Column("tenant", String(120)),
    Column("payload", ReadableJSON, nullable=False),
    Column("checksum", String(16)),
    Index("ix_events_job_id", "job_id"),
    Index("ix_events_tenant", "tenant"),
    Index("ix_events_kind", "kind", "at"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("epoch", _Number, nullable=False),
    Column("holder", String(500), nullable=False),
    Column("beats", _Number, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("version", String(64), nullable=False),
    Column("entry", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("state", LargeBinary, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(120), primary_key=True),
    Column("number", _Number, nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("tenant", String(120), nullable=False),
    Column("state", String(20), nullable=False),
    Column("spec", ReadableJSON, nullable=False),
    Column("quote", JSON),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("run_id", String(160)),
    Column("devices", JSON, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("tail", JSON, nullable=False),
    Index("ix_jobs_tenant", "tenant", "number"),
    Index("ix_jobs_state", "state", "number"),
    Index("ix_jobs_name", "name", "number"),
    Index("ix_jobs_ended_at", "ended_at", "number"),
    Index("ix_jobs_started_at", "started_at"),
)

job_counts = Table(
    "job_counts",
    metadata,
    Column("state", String(20), primary_key=True),
    Column("tenant", String(120), primary_key=True),
    Column("many", _Number, nullable=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("id", String(120), primary_key=True),
    Column("number", _Number, nullable=False),
    Column("name", String(200), nullable=False),
    Column("tenant", String(120), nullable=False),
    Column("state", String(20), nullable=False),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float, nullable=False),
    Column("verdict", String(20)),
    Column("planned_at", Float, nullable=False),
    Column("expected_at", Float),
    Column("deadline", Float, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("energy_j", Float),
    Column("energy_estimated", Boolean, nullable=False),
    Index("ix_outcomes_ended_at", "ended_at"),
)

archive = Table(
    "archive",
    metadata,
    Column("job_id", String(120), ForeignKey("jobs.id"), primary_key=True),
    Column("record", ReadableJSON, nullable=False),
)

compactions = Table(
    "compactions",
    metadata,
    Column("up_to", _Number, primary_key=True, autoincrement=False),
    Column("removed", _Number, nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column("job_id", String(120), ForeignKey("jobs.id"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("run_id", String(160), nullable=False),
    Column("kind", String(80), nullable=False),
    Column("devices", JSON, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float),
    Index("ix_grants_until", "until"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(160), primary_key=True),
    Column("job_id", String(120), nullable=False),
    Column("reports_read", _Number, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(120), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("tenant", String(120), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
    Column("scope", String(120), nullable=False, server_default=""),
    Column("origin", String(200), nullable=False, server_default=""),
    Column("expires_at", Float),
    Column("last_used_at", Float),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("token_id", String(40), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("ended_at", Float),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("actor", String(120), nullable=False),
    Column("token_id", String(40), nullable=False),
    Column("tenant", String(120), nullable=False),
    Column("address", String(64), nullable=False),
    Column("action", String(40), nullable=False),
    Column("target", String(200), nullable=False),
    Column("result", String(40), nullable=False),
    Index("ix_audit_tenant", "tenant"),
)

quotas = Table(
    "quotas",
    metadata,
    Column("tenant", String(120), primary_key=True),
    Column("active_jobs", Integer),
    Column("devices", Integer),
    Column("requests_per_s", Float),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", String(120), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("job_id", String(120), nullable=False),
    Column("at", Float, nullable=False),
)
