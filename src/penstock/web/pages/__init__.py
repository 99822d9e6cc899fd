"""The pages, one file each. Opening this door registers all of them."""

from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from penstock.web.layout import ask, framed
from penstock.web.pages import cluster, compare, job, jobs, missing, nodes, submit, tenants, tokens, whatif
from penstock.web.session import sign_in_url, signed_in
from penstock.web.socket_gate import SocketGate
from penstock.web.viewer import DashboardData, Viewer

Build = Callable[[Viewer, Request], Awaitable[None]]

PAGES: tuple[tuple[str, str, Build], ...] = (
    ("/", "Cluster", cluster.build),
    ("/jobs", "Jobs", jobs.build),
    ("/jobs/{job_id}", "Job", job.build),
    ("/compare", "Compare jobs", compare.build),
    ("/submit", "Submit a job", submit.build),
    ("/tenants", "Tenants", tenants.build),
    ("/tokens", "Tokens", tokens.build),
    ("/nodes", "Nodes", nodes.build),
    ("/what-if", "What if", whatif.build),
    ("/{name}", "No such page", missing.build),
)


def register(data: DashboardData, gate: SocketGate) -> None:
    """Every page, behind the sign-in."""
    for path, title, build in PAGES:
        _register(data, gate, path, title, build)


def _register(data: DashboardData, gate: SocketGate, path: str, title: str, build: Build) -> None:
    @ui.page(path, title=f"{title} · Penstock", response_timeout=15.0)
    async def page(request: Request) -> Response | None:
        holder = await ask(signed_in, data.platform.credentials, request)
        if holder is None:
            return RedirectResponse(sign_in_url(request.url.path), 303)
        viewer = Viewer(data, holder)
        gate.expect(ui.context.client, holder)
        with framed(viewer, request, title):
            await build(viewer, request)
        return None
