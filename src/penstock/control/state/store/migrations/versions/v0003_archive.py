"""Jobs that are over leave memory; what nobody reads any more leaves the log."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "archive",
        sa.Column("job_id", sa.String(120), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_archive"),
    )
    op.create_table(
        "compactions",
        sa.Column("up_to", _Number, autoincrement=False, nullable=False),
        sa.Column("removed", _Number, nullable=False),
        sa.PrimaryKeyConstraint("up_to", name="pk_compactions"),
    )


def downgrade() -> None:
    for table in ("compactions", "archive"):
        op.drop_table(table)
