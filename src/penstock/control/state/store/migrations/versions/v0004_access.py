"""Tokens with a scope and an end, sessions that end everywhere at once, an audit log, and quotas of tenants."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
        "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION audit_is_append_only() RETURNS trigger AS $$ "
        "BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()",
    ],
}


def upgrade() -> None:
    with op.batch_alter_table("tokens") as table:
        table.alter_column("role", existing_type=sa.String(10), type_=sa.String(20), existing_nullable=False)
        table.add_column(sa.Column("scope", sa.String(120), nullable=False, server_default=""))
        table.add_column(sa.Column("origin", sa.String(200), nullable=False, server_default=""))
        table.add_column(sa.Column("expires_at", sa.Float))
        table.add_column(sa.Column("last_used_at", sa.Float))
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_table(
        "audit",
        sa.Column("seq", _Number, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("actor", sa.String(120), nullable=False),
        sa.Column("token_id", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("result", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    op.create_index("ix_audit_tenant", "audit", ["tenant"])
    op.create_table(
        "quotas",
        sa.Column("tenant", sa.String(120), nullable=False),
        sa.Column("active_jobs", sa.Integer),
        sa.Column("devices", sa.Integer),
        sa.Column("requests_per_s", sa.Float),
        sa.PrimaryKeyConstraint("tenant", name="pk_quotas"),
    )
    for statement in _APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    for name in ("quotas", "audit", "sessions"):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_is_append_only()")
    with op.batch_alter_table("tokens") as table:
        for column in ("last_used_at", "expires_at", "origin", "scope"):
            table.drop_column(column)
        table.alter_column("role", existing_type=sa.String(20), type_=sa.String(10), existing_nullable=False)
