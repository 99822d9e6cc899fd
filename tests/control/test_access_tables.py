"""Tokens, sessions, audit and quotas behave the same on SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from penstock.control.state.store import AuditEntry, Quota, Role, Scope, Store
from penstock.control.state.store.database import open_engine
from tests.control.test_store import server, store, url

__all__ = ["server", "store", "url"]

ENTRY = AuditEntry(
    at=1.0, actor="ada", token_id="t-1", tenant="blue", address="10.0.0.1", action="drain", target="node-0", result="ok"
)


def test_a_token_keeps_its_scope_its_end_and_its_last_use(store: Store) -> None:
    secret, made = store.tokens.create(
        name="ci", role=Role.TENANT_ADMIN, tenant="blue", now=1.0, scope=[Scope.SUBMIT, Scope.READ], expires_at=5.0
    )
    found = store.tokens.check(secret)
    assert found == made
    assert found is not None
    assert found.scope == {Scope.READ, Scope.SUBMIT}
    assert [found.is_expired(now) for now in (4.9, 5.0)] == [False, True]
    store.tokens.used(made.id, 3.0)
    assert [token.last_used_at for token in store.tokens.list()] == [3.0]


def test_what_was_revoked_is_known_without_asking_the_database(store: Store) -> None:
    _, made = store.tokens.create(name="ada", role=Role.USER, tenant="t", now=1.0)
    store.tokens.revoke("nobody", 2.0)
    assert not store.tokens.is_revoked("nobody")
    assert not store.tokens.is_revoked(made.id)
    store.tokens.revoke(made.id, 2.0)
    assert store.tokens.is_revoked(made.id)


def test_a_session_ends_when_told_or_when_its_time_is_over(store: Store) -> None:
    cookie, session = store.sessions.create("t-1", now=1.0, expires_at=10.0)
    other, _ = store.sessions.create("t-1", now=1.0, expires_at=10.0)
    assert store.sessions.find(cookie, 2.0) == session
    assert store.sessions.find(cookie + "x", 2.0) is None
    assert store.sessions.find(cookie, 10.0) is None
    store.sessions.end(session.id, 3.0)
    assert store.sessions.is_ended(session.id)
    assert store.sessions.find(cookie, 4.0) is None
    assert store.sessions.find(other, 4.0) is not None


def test_the_audit_log_takes_entries_and_never_gives_one_up(store: Store, url: str) -> None:
    store.audit.append([ENTRY, replace(ENTRY, tenant="red", target="a\0b" + "x" * 500)])
    last, first = store.audit.page()
    assert replace(first, seq=0) == ENTRY
    assert last.target == "a�b" + "x" * 197
    assert [entry.tenant for entry in store.audit.page(tenant="blue")] == ["blue"]
    assert store.audit.page(before=first.seq) == []
    engine = open_engine(url)
    for change in ("DELETE FROM audit", "UPDATE audit SET actor = 'eve'"):
        with pytest.raises(DatabaseError, match="append-only"), engine.begin() as connection:
            connection.execute(text(change))
    engine.dispose()
    assert len(store.audit.page()) == 2


def test_a_quota_is_set_and_set_again(store: Store) -> None:
    store.quotas.set("blue", Quota(active_jobs=3, requests_per_s=0.5))
    store.quotas.set("blue", Quota(devices=2))
    assert store.quotas.all() == {"blue": Quota(devices=2)}
