"""What became of jobs as columns, how many there are as a table, and the indices that lists of a million jobs need."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_SQLITE = """
INSERT INTO outcomes
SELECT jobs.id, jobs.number, jobs.name, jobs.tenant, jobs.state, jobs.submitted_at, jobs.started_at,
    coalesce(jobs.ended_at, jobs.submitted_at), json_extract(jobs.quote, '$.verdict'),
    CASE json_type(jobs.quote, '$.finish_at') WHEN 'text' THEN 9e999
        ELSE coalesce(json_extract(jobs.quote, '$.finish_at'), 9e999) END,
    CASE json_type(record, '$.expected_at') WHEN 'text' THEN 9e999 ELSE json_extract(record, '$.expected_at') END,
    CASE WHEN json_extract(record, '$.job.goal.type') = 'Deadline' AND json_type(record, '$.job.goal.at') <> 'text'
        THEN json_extract(record, '$.job.goal.at') ELSE 9e999 END,
    jobs.failures, jobs.reason, json_extract(record, '$.energy_j'),
    coalesce(json_extract(record, '$.energy_estimated'), 0)
FROM archive JOIN jobs ON jobs.id = archive.job_id WHERE json_valid(record)
"""
_POSTGRES = """
INSERT INTO outcomes
SELECT jobs.id, jobs.number, jobs.name, jobs.tenant, jobs.state, jobs.submitted_at, jobs.started_at,
    coalesce(jobs.ended_at, jobs.submitted_at), jobs.quote->>'verdict',
    coalesce((jobs.quote->>'finish_at')::float8, 'Infinity'), (record->>'expected_at')::float8,
    CASE WHEN record->'job'->'goal'->>'type' = 'Deadline'
        THEN (record->'job'->'goal'->>'at')::float8 ELSE 'Infinity' END,
    jobs.failures, jobs.reason, (record->>'energy_j')::float8, coalesce((record->>'energy_estimated')::boolean, false)
FROM archive JOIN jobs ON jobs.id = archive.job_id
"""


def upgrade() -> None:
    _create_tables()
    op.execute("INSERT INTO job_counts SELECT state, tenant, count(*) FROM jobs GROUP BY state, tenant")
    op.execute(_SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRES)
    op.create_index("ix_outcomes_ended_at", "outcomes", ["ended_at"])
    for name in ("state", "tenant"):
        op.drop_index(f"ix_jobs_{name}", "jobs")
    for name in ("state", "tenant", "name", "ended_at"):
        op.create_index(f"ix_jobs_{name}", "jobs", [name, "number"])
    op.create_index("ix_jobs_started_at", "jobs", ["started_at"])
    op.create_index("ix_grants_until", "grants", ["until"])


def _create_tables() -> None:
    op.create_table(
        "job_counts",
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("many", _Number, nullable=False),
        sa.PrimaryKeyConstraint("state", "tenant", name="pk_job_counts"),
    )
    op.create_table(
        "outcomes",
        sa.Column("id", sa.String(120), nullable=False),
        sa.Column("number", _Number, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("submitted_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float, nullable=False),
        sa.Column("verdict", sa.String(20)),
        sa.Column("planned_at", sa.Float, nullable=False),
        sa.Column("expected_at", sa.Float),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("energy_j", sa.Float),
        sa.Column("energy_estimated", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outcomes"),
    )


def downgrade() -> None:
    op.drop_index("ix_grants_until", "grants")
    for name in ("started_at", "ended_at", "name", "tenant", "state"):
        op.drop_index(f"ix_jobs_{name}", "jobs")
    for name in ("state", "tenant"):
        op.create_index(f"ix_jobs_{name}", "jobs", [name])
    for table in ("outcomes", "job_counts"):
        op.drop_table(table)
