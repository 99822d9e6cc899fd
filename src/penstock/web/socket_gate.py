"""Which connections of pages are let in, and for how long.

A page keeps a socket to the server; whoever speaks on it acts for the person who opened the page. So a socket is
accepted from our own pages only (origin), from the browser that is signed in (cookie) and for a page that was made for
that very session, so often and so many as people need; and it is closed the moment the session is over. A page that the
server does not know any more is told so by the framework, and loads itself anew.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from nicegui import Client, core
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.control import Buckets, Credentials, Principal
from penstock.web.session import address_of, is_foreign, signed_in
from penstock.web.urls import ROOT

SOCKETS = f"{ROOT}/_nicegui_ws/"
_PER_SECOND, _AT_ONCE = 5.0, 60
_MOST_PER_SESSION, _MOST = 50, 1000
_LOOK_EVERY_S = 2.0
_SIGNED_OUT = 4401


@dataclass(frozen=True, slots=True)
class SocketRefusal:
    """Why a connection is not let in."""

    status: int
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class OpenSocket:
    """A connection of somebody's page, and what ends it."""

    who: Principal
    ended: asyncio.Event


class SocketGate:
    """Lets sockets of pages in and throws them out. ``middleware`` goes around the whole application."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._buckets = Buckets(_PER_SECOND, _AT_ONCE)
        self._pages: dict[str, str] = {}
        self._open: set[OpenSocket] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: asyncio.Task[None] | None = None
        credentials.subscribe(self._on_end)

    def expect(self, client: Client, who: Principal) -> None:
        """A page was made for somebody's session; only that session may connect it."""
        self._pages[client.id] = who.session_id
        client.on_delete(lambda: self._pages.pop(client.id, None))

    def middleware(self, app: ASGIApp) -> ASGIApp:
        async def gated(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] not in ("http", "websocket") or not scope["path"].startswith(SOCKETS):
                await app(scope, receive, send)
                return
            found = await self._admit(HTTPConnection(scope))
            if isinstance(found, SocketRefusal):
                await _refuse(found, scope, receive, send)
            elif scope["type"] == "http":
                await app(scope, receive, send)
            else:
                await self._while_valid(app, found, scope, receive, send)

        return gated

    async def _admit(self, connection: HTTPConnection) -> Principal | SocketRefusal:
        if "origin" not in connection.headers and connection.scope["type"] == "websocket":
            return SocketRefusal(403, "a connection of a page says where it comes from")
        if is_foreign(connection):
            return SocketRefusal(403, "another site's page has no connection here")
        who = await run_in_threadpool(signed_in, self._credentials, connection)
        if self._buckets.take(f"session {who.session_id}" if who else f"address {address_of(connection)}"):
            return SocketRefusal(429, "too many connections in a short time")
        if who is None:
            return SocketRefusal(401, "sign in first")
        page = parse_qs(connection.url.query).get("client_id", [""])[0]
        if self._pages.get(page, who.session_id) != who.session_id:
            return SocketRefusal(403, "this page belongs to somebody else")
        mine = sum(socket.who.session_id == who.session_id for socket in self._open)
        return (
            who
            if mine < _MOST_PER_SESSION and len(self._open) < _MOST
            else SocketRefusal(429, "too many pages are open")
        )

    async def _while_valid(self, app: ASGIApp, who: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        socket = OpenSocket(who, asyncio.Event())
        self._open.add(socket)
        self._begin_watching()

        async def receiving() -> Message:
            message = await _first(receive(), socket.ended)
            if message is None:
                await send({"type": "websocket.close", "code": _SIGNED_OUT})
                return {"type": "websocket.disconnect", "code": _SIGNED_OUT}
            return message

        async def sending(message: Message) -> None:
            if not socket.ended.is_set():
                await send(message)

        try:
            await app(scope, receiving, sending)
        finally:
            self._open.discard(socket)

    def _begin_watching(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._watch is None or self._watch.done():
            self._watch = self._loop.create_task(self._look_now_and_then())

    async def _look_now_and_then(self) -> None:
        """Nobody tells when a token or a session has merely run out."""
        while self._open:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._look()

    def _look(self) -> None:
        for socket in self._open:
            if not self._credentials.is_valid(socket.who):
                socket.ended.set()

    def _on_end(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look)


async def _first(receiving: Any, ended: asyncio.Event) -> Message | None:
    """The next message, or nothing once it is over."""
    message, over = asyncio.ensure_future(receiving), asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait((message, over), return_when=asyncio.FIRST_COMPLETED)
        return message.result() if message.done() and not ended.is_set() else None
    finally:
        message.cancel()
        over.cancel()


async def _refuse(refusal: SocketRefusal, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4000 + refusal.status, "reason": refusal.why})
    else:
        await PlainTextResponse(f"{refusal.why}\n", refusal.status)(scope, receive, send)


def keep_to_own_page() -> None:
    """A socket speaks for the page it was accepted for, whatever page it names in a message."""
    handlers = core.sio.handlers["/"]
    for name in ("event", "javascript_response", "ack", "log"):
        handlers[name] = _checked(handlers[name])


def _checked(handler: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    def of_own_page(sid: str, message: Any) -> Any:
        named = message.get("client_id") if isinstance(message, dict) else None
        return handler(sid, message) if named is not None and named in core.sio.rooms(sid) else None

    return of_own_page
