"""The log, its projections, and who may ask."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_log()
    _create_jobs()
    _create_runs()
    _create_access()


def _create_log() -> None:
    op.create_table(
        "events",
        sa.Column("seq", _Number, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("job_id", sa.String(120)),
        sa.Column("tenant", sa.String(120)),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_index("ix_events_job_id", "events", ["job_id"])
    op.create_index("ix_events_tenant", "events", ["tenant"])


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(120), nullable=False),
        sa.Column("number", _Number, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("quote", sa.JSON),
        sa.Column("submitted_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("run_id", sa.String(160)),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("tail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("number", name="uq_jobs_number"),
    )
    op.create_index("ix_jobs_tenant", "jobs", ["tenant"])
    op.create_index("ix_jobs_state", "jobs", ["state"])


def _create_runs() -> None:
    op.create_table(
        "grants",
        sa.Column("job_id", sa.String(120), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("run_id", sa.String(160), nullable=False),
        sa.Column("kind", sa.String(80), nullable=False),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("until", sa.Float),
        sa.PrimaryKeyConstraint("job_id", "generation", name="pk_grants"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(160), nullable=False),
        sa.Column("job_id", sa.String(120), nullable=False),
        sa.Column("reports_read", _Number, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )


def _create_access() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("revoked_at", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(120), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency"),
    )


def downgrade() -> None:
    for table in ("idempotency", "tokens", "runs", "grants", "jobs", "events"):
        op.drop_table(table)
