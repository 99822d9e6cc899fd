"""The pages as part of a server's application: routes, static files, headers, and the sampler beside them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import ChoiceLoader, DictLoader
from nicegui import ui
from nicegui.client import templates
from starlette.types import ASGIApp

from penstock.control import Platform
from penstock.learn import CurveStore
from penstock.web.downloads import download_routes
from penstock.web.oidc import IdentityProvider, oidc_routes
from penstock.web.oidc_settings import OidcSettings
from penstock.web.pages import register
from penstock.web.progress_history import ProgressSampler
from penstock.web.session import routes
from penstock.web.socket_gate import SocketGate, keep_to_own_page
from penstock.web.urls import ROOT, STATIC
from penstock.web.viewer import DashboardData

_HERE = Path(__file__).parent
_RECONNECT_S = 20.0
"""How long the server remembers a page whose connection broke; after that the browser loads it anew by itself."""


def mount_pages(app: FastAPI, platform: Platform, data_dir: Path, oidc: OidcSettings | None = None) -> None:
    """Put the pages under ``/ui`` and send ``/`` there."""
    sampler = ProgressSampler(platform, data_dir / "trails")
    gate = SocketGate(platform.credentials)
    app.include_router(routes(platform.credentials, oidc.label if oidc else ""))
    if oidc is not None:
        app.include_router(oidc_routes(IdentityProvider(oidc), platform.credentials))
    app.include_router(download_routes(platform))
    app.add_api_route("/", _to_the_pages, include_in_schema=False)
    app.mount(STATIC, StaticFiles(directory=_HERE / "static"))
    register(DashboardData(platform, sampler, CurveStore(data_dir / "curves.db")), gate)
    ui.run_with(
        app, mount_path=ROOT, title="Penstock", language="en-US", dark=None, tailwind=False,
        favicon=(_HERE / "static" / "gate.svg").read_text(), gzip_middleware_factory=_quickly_packed,
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT_S, show_welcome_message=False,
    )  # fmt: skip
    _let_scripts_of_pages_run()
    app.add_middleware(gate.middleware)
    keep_to_own_page()
    _keep_addresses_out_of_the_log()
    _while_running(app, sampler)


def _let_scripts_of_pages_run() -> None:
    """Put the nonce of the request on the scripts that the framework writes into a page."""
    loader = templates.env.loader
    assert loader is not None
    source, _, _ = loader.get_source(templates.env, "index.html")
    own = DictLoader({"index.html": source.replace("<script", '<script nonce="{{ request.state.nonce }}"')})
    templates.env.loader = ChoiceLoader([own, loader])


def _quickly_packed(app: ASGIApp) -> GZipMiddleware:
    """A quarter of the CPU of the best packing, for a fifth more bytes; browsers keep what they have got anyway."""
    return GZipMiddleware(app, minimum_size=2000, compresslevel=1)


def _keep_addresses_out_of_the_log() -> None:
    """The address of a page's connection is all it takes to speak for that page; a log is read by others."""
    for name in ("uvicorn.error", "websockets.server"):
        logging.getLogger(name).addFilter(lambda record: "WebSocket" not in str(record.msg))


def _to_the_pages() -> Response:
    return RedirectResponse(f"{ROOT}/", 307)


def _while_running(app: FastAPI, sampler: ProgressSampler) -> None:
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        sampler.start()
        try:
            async with inner(app) as state:
                yield state
        finally:
            sampler.stop()

    app.router.lifespan_context = lifespan
