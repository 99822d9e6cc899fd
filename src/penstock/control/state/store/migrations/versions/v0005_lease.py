"""Who may write, and what an entry must read like."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("epoch", _Number, nullable=False),
        sa.Column("holder", sa.String(500), nullable=False),
        sa.Column("beats", _Number, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.add_column("events", sa.Column("checksum", sa.String(16)))
    op.create_index("ix_events_kind", "events", ["kind", "at"])


def downgrade() -> None:
    op.drop_index("ix_events_kind", "events")
    op.drop_column("events", "checksum")
    op.drop_table("leases")
