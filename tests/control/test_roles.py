"""Who may do what: every operation of the API and every action of the dashboard against the one table."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.control.api import create_app
from penstock.control.platform.access import RIGHTS, SCOPES, Action
from penstock.control.state.store import Principal, Role, Scope
from penstock.web.viewer import Viewer
from penstock.wire import ForbiddenError, WhatIfRequest
from tests.control.build import ADMIN, Platform
from tests.control.serving import Served, serving
from tests.web.world import Seen, seen

OPEN = frozenset({"GET /healthz", "GET /readyz", "GET /version"})
"""What anybody may ask."""

OPERATIONS: dict[str, tuple[Action, dict[str, Any] | None]] = {
    "GET /v1/jobs": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/why": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/metrics": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/usage": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/evaluations": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/hotspots": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/events": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/logs": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/logs/stream": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/report": (Action.LOOK, None),
    "GET /v1/overview": (Action.LOOK, None),
    "GET /v1/events": (Action.LOOK, None),
    "GET /v1/events/stream": (Action.LOOK, None),
    "GET /v1/nodes": (Action.LOOK, None),
    "GET /v1/report": (Action.LOOK, None),
    "GET /v1/quotas": (Action.LOOK, None),
    "GET /v1/tenants": (Action.LOOK, None),
    "GET /v1/arrays/{array}": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/checkpoints": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/files": (Action.LOOK, None),
    "GET /v1/jobs/{job_id}/files/content": (Action.LOOK, None),
    "POST /v1/clean": (Action.STEER, {"older": "30d"}),
    "POST /v1/jobs": (Action.SUBMIT, {"work": 10}),
    "POST /v1/arrays": (Action.SUBMIT, {"job": {"work": 10}, "array": "1..2"}),
    "POST /v1/quote": (Action.SUBMIT, {"work": 10}),
    "POST /v1/jobs/{job_id}/cancel": (Action.STEER, None),
    "POST /v1/arrays/{array}/cancel": (Action.STEER, None),
    "POST /v1/arrays/{array}/pause": (Action.STEER, None),
    "POST /v1/arrays/{array}/resume": (Action.STEER, None),
    "POST /v1/jobs/{job_id}/pause": (Action.STEER, None),
    "POST /v1/jobs/{job_id}/resume": (Action.STEER, None),
    "POST /v1/jobs/{job_id}/edit": (Action.STEER, {"priority": 5}),
    "POST /v1/jobs/{job_id}/exec": (Action.EXECUTE, {"command": ["true"]}),
    "POST /v1/jobs/{job_id}/exec/{session}/keys": (Action.EXECUTE, {"text": "x"}),
    "GET /v1/secrets": (Action.SECRETS, None),
    "PUT /v1/secrets/{name}": (Action.SECRETS, {"value": "x"}),
    "DELETE /v1/secrets/{name}": (Action.SECRETS, None),
    "GET /v1/tokens": (Action.TOKENS, None),
    "POST /v1/tokens": (Action.TOKENS, {"name": "x", "tenant": "blue", "role": "viewer"}),
    "DELETE /v1/tokens/{token_id}": (Action.TOKENS, None),
    "GET /v1/audit": (Action.AUDIT, None),
    "PUT /v1/quotas/{tenant}": (Action.QUOTAS, {"devices": 4}),
    "PUT /v1/tenants/{tenant}": (Action.QUOTAS, {"share": 2.0}),
    "DELETE /v1/tenants/{tenant}": (Action.QUOTAS, None),
    "GET /v1/nodes/{name}/drain": (Action.DRAIN, None),
    "POST /v1/nodes/{name}/drain": (Action.DRAIN, None),
    "POST /v1/nodes/{name}/undrain": (Action.DRAIN, None),
    "GET /v1/policy": (Action.LOOK, None),
    "PUT /v1/policy": (Action.SWITCH, {"policy": "deadline"}),
    "POST /v1/what-if": (Action.REPLAY, {"policies": ["mine.py:Mine"]}),
    "GET /metrics": (Action.MEASURE, None),
}
"""What each operation is, and what it is sent."""

HOLDERS = [(role, frozenset[Scope]()) for role in Role] + [
    (Role.ADMIN, frozenset({scope})) for scope in Scope
] + [(Role.USER, frozenset({Scope.READ, Scope.SUBMIT}))]  # fmt: skip


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def test_every_operation_is_in_the_table(world: Platform) -> None:
    paths = create_app(world.platform, world.metrics).openapi()["paths"]
    there = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert there == OPERATIONS.keys() | OPEN


def test_every_action_has_a_scope_and_somebody_who_may() -> None:
    assert SCOPES.keys() == set(Action) == RIGHTS[Role.ADMIN]
    ranks = [RIGHTS[role] for role in Role]
    assert all(less < more for less, more in pairwise(ranks)), "a higher role may do less"


@pytest.mark.parametrize(("role", "scope"), HOLDERS, ids=lambda value: "+".join(sorted(value)) if value else "")
def test_the_api_does_what_the_table_says(served: Served, role: Role, scope: frozenset[Scope]) -> None:
    world = served.world
    made, principal = world.journal.store.tokens.create(name="x", role=role, tenant="blue", now=1.0, scope=scope)
    served.secrets["x"] = made
    with served.http("x") as http:
        for operation, (action, body) in OPERATIONS.items():
            world.journal.store.tokens.create(name="victim", role=Role.VIEWER, tenant="blue", now=1.0)
            victim = next(token.id for token in world.journal.store.tokens.list("blue") if token.name == "victim")
            job = world.submit(tenant="blue", work=1000)
            if operation.endswith("logs/stream"):
                world.commands.cancel(job, principal)
            method, path = operation.split()
            array = world.platform.submit_array({"work": 1000, "tenant": "blue"}, "1..2", ADMIN).id
            path = path.format(job_id=job, array=array, token_id=victim, name="node-0", tenant="blue", session="s")
            with http.stream(method, path, json=body, headers={"host": "elsewhere.example"}) as answer:
                status = answer.status_code
            allowed = action in RIGHTS[role] and (not scope or SCOPES[action] in scope)
            assert (status == 403) != allowed, f"{role} {sorted(scope)}: {operation} gave {status}"
            assert status < 500


DASHBOARD: dict[str, tuple[Action, Callable[[Viewer, str], object]]] = {
    "cluster": (Action.LOOK, lambda viewer, _: viewer.cluster(60.0)),
    "nodes": (Action.LOOK, lambda viewer, _: viewer.nodes()),
    "tenants": (Action.LOOK, lambda viewer, _: viewer.tenants(60.0)),
    "job": (Action.LOOK, lambda viewer, job: viewer.job(job)),
    "log": (Action.LOOK, lambda viewer, job: viewer.log(job, None)),
    "quote": (Action.SUBMIT, lambda viewer, _: viewer.quote({"work": 10})),
    "submit": (Action.SUBMIT, lambda viewer, _: viewer.submit({"work": 10})),
    "pause": (Action.STEER, lambda viewer, job: viewer.pause(job)),
    "resume": (Action.STEER, lambda viewer, job: viewer.resume(job)),
    "cancel": (Action.STEER, lambda viewer, job: viewer.cancel(job)),
    "drain": (Action.DRAIN, lambda viewer, _: viewer.drain("node-0")),
    "undrain": (Action.DRAIN, lambda viewer, _: viewer.undrain("node-0")),
    "what_if": (Action.REPLAY, lambda viewer, _: viewer.what_if(WhatIfRequest(policies=["fifo"]))),
}


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Seen]:
    with seen(tmp_path) as found:
        yield found


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", DASHBOARD)
def test_the_dashboard_does_what_the_table_says(there: Seen, name: str, role: Role) -> None:
    action, do = DASHBOARD[name]
    _, who = there.world.journal.store.tokens.create(name="x", role=role, tenant="blue", now=1.0)
    job = there.world.submit(tenant="blue", work=1000)
    there.world.passes(2)
    viewer = there.viewer_of(who)
    if action in RIGHTS[role]:
        do(viewer, job)
    else:
        with pytest.raises(ForbiddenError):
            do(viewer, job)


GIVING: tuple[tuple[Role, dict[str, Any], bool], ...] = (
    (Role.ADMIN, {"role": "admin", "tenant": "red"}, True),
    (Role.TENANT_ADMIN, {"role": "tenant-admin"}, True),
    (Role.TENANT_ADMIN, {"role": "admin"}, False),
    (Role.TENANT_ADMIN, {"role": "viewer", "tenant": "red"}, False),
    (Role.USER, {"role": "viewer"}, False),
)


@pytest.mark.parametrize(("role", "wanted", "given"), GIVING)
def test_nobody_gives_away_more_than_they_have(served: Served, role: Role, wanted: dict[str, Any], given: bool) -> None:
    served.secrets["x"], _ = served.world.journal.store.tokens.create(name="x", role=role, tenant="blue", now=1.0)
    with served.http("x") as http:
        answer = http.post("/v1/tokens", json={"name": "y", "tenant": "blue", **wanted})
        assert answer.status_code == (201 if given else 403), answer.text


def test_a_token_with_a_scope_or_an_end_makes_none_beyond_them(served: Served) -> None:
    tokens = served.world.journal.store.tokens
    now = served.world.journal.now()
    served.secrets["x"], _ = tokens.create(
        name="x", role=Role.ADMIN, tenant="blue", now=now, scope=[Scope.ADMIN], expires_at=now + 3600
    )
    with served.client("x") as client:
        made = client.make_token(name="y", tenant="blue", role="user")
        assert made.scope == ["admin"]
        assert made.expires_at is not None
        for beyond in ({"scope": ["read"]}, {"expires": "2h"}):
            with pytest.raises(ForbiddenError):
                client.make_token(name="y", tenant="blue", **beyond)  # type: ignore[arg-type]


def test_a_tenant_admin_revokes_its_own_tenants_tokens_only(served: Served) -> None:
    tokens = served.world.journal.store.tokens
    served.secrets["x"], _ = tokens.create(name="x", role=Role.TENANT_ADMIN, tenant="blue", now=1.0)
    ids = {token.name: token.id for token in tokens.list()}
    with served.http("x") as http:
        assert {token["tenant"] for token in http.get("/v1/tokens").json()} == {"blue"}
        assert http.delete(f"/v1/tokens/{ids['eve']}").status_code == 404
        assert http.delete(f"/v1/tokens/{ids['ada']}").status_code == 204
    assert tokens.find(ids["eve"]) is not None


def test_the_audit_log_says_who_did_what_from_where_and_how_it_went(served: Served) -> None:
    with served.client() as admin, served.client("ada") as ada:
        job = ada.submit({"name": "secret-free", "work": 100}).job.id
        ada.cancel(job)
        with pytest.raises(ForbiddenError):
            ada.drain("node-0")
        admin.drain("node-0")
        made = admin.make_token(name="ci", tenant="blue", role="viewer", scope=["read"], expires="30d")
        admin.revoke_token(made.id)
        admin.set_quota("blue", devices=4)
        page = admin.audit()
        told = [(entry.actor, entry.action, entry.target, entry.result) for entry in reversed(page.entries)]
        assert told == [
            ("ada", "submit", job, "done"),
            ("ada", "cancel", job, "done"),
            ("ada", "drain", "node-0", "forbidden"),
            ("admin", "drain", "node-0", "done"),
            ("admin", "create token", "viewer ci of blue", "done"),
            ("admin", "revoke token", made.id, "done"),
            ("admin", "set quota", "blue", "done"),
        ]
        assert {entry.address for entry in page.entries} == {"127.0.0.1"}
        assert made.secret is not None
        assert made.secret not in page.model_dump_json()
        first = admin.audit(limit=2)
        assert [entry.action for entry in admin.audit(limit=2, before=first.next).entries] == [
            "create token", "drain",
        ]  # fmt: skip
        assert [entry.target for entry in admin.audit(action="cancel").entries] == [job]
        with pytest.raises(ForbiddenError):
            ada.audit()


def test_a_tenant_admin_reads_its_own_tenants_part_of_the_audit_log(served: Served) -> None:
    served.secrets["x"], _ = served.world.journal.store.tokens.create(
        name="x", role=Role.TENANT_ADMIN, tenant="blue", now=1.0
    )
    with served.client("ada") as ada, served.client("eve") as eve, served.client("x") as chief:
        ada.submit({"work": 10})
        eve.submit({"work": 10})
        assert {entry.actor for entry in chief.audit().entries} == {"ada"}


def test_a_token_tells_when_it_was_last_used(served: Served) -> None:
    with served.client() as admin, served.client("ada") as ada:
        ada.jobs()
        by_name = {token.name: token for token in admin.tokens()}
        assert by_name["ada"].last_used_at is not None
        assert by_name["eve"].last_used_at is None


def test_a_principal_is_confined_to_its_tenant_whatever_its_role() -> None:
    for role in Role:
        who = Principal(id="x", name="x", role=role, tenant="blue")
        assert who.may_see("red") is (role is Role.ADMIN)
