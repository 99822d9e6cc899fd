"""How much one caller may send, and how often. Plain ASGI, so that a body is refused before it is in memory."""

import asyncio
import hashlib
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol

import anyio
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.control.platform.credentials import session_cookie
from penstock.control.platform.quotas import Quotas
from penstock.control.state.store import Principal
from penstock.wire import MEDIA_TYPE, RequestError, TooLargeError, TooManyError, UnavailableError, problem

_MOST_CALLERS = 10_000
_REMEMBERED_S = 30.0
_BODY_WITHIN_S = 30.0
_LOOK_UPS = 8
MOST_AT_ONCE = 10
_TURN_WITHIN_S = 10.0
LOOK_UP_S = 5.0
"""How long a token is looked up before whoever showed it is asked to come again."""
_UNCOUNTED = ("/healthz", "/readyz")
"""What a machine asks every few seconds to learn whether we live; it costs nothing and waits for nobody."""


class Buckets:
    """A token bucket per caller: ``rate`` requests a second on average, ``burst`` at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, rate: float | None = None) -> float:
        """0 if the request may pass, else the seconds to wait. A caller with a rate of its own has a burst of its own:
        what it may send in four seconds."""
        now = self._clock()
        burst = float(self._burst) if rate is None else max(1.0, math.ceil(4 * rate))
        rate = self._rate if rate is None else rate
        level, at = self._levels.pop(caller, (burst, now))
        level = min(burst, level + (now - at) * rate)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / rate
        self._levels[caller] = (level - 1.0 if not wait else level, now)
        if len(self._levels) > _MOST_CALLERS:
            self._levels.popitem(last=False)
        return wait


class Identification(Protocol):
    """Whoever knows whom a token or a cookie belongs to; may ask a database."""

    def holder(self, secret: str) -> Principal | None: ...

    def session_holder(self, cookie: str | None) -> Principal | None: ...


@dataclass(frozen=True, slots=True)
class RequestSource:
    """Whose allowance a request counts against, and the tenant behind it; none for strangers and for admins."""

    key: str
    tenant: str | None = None


class TenantShares:
    """How many requests of one tenant are worked on at a time, of the forty threads that there are for all.

    Others wait until one of them has its answer: what a request waits for may be a tenant's own doing.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._free: dict[str, asyncio.Semaphore] = {}

    async def take(self, tenant: str) -> Callable[[], None]:
        """Wait for a place; returns what gives it back, and raises :class:`~penstock.wire.TooManyError`."""
        free = self._free.setdefault(tenant, asyncio.Semaphore(self._most))
        try:
            async with asyncio.timeout(_TURN_WITHIN_S):
                await free.acquire()
        except TimeoutError:
            raise TooManyError(
                f"{self._most} requests of tenant {tenant} are being worked on and none of them ends",
                f"at most {self._most} at a time", "Wait for their answers",
            ) from None  # fmt: skip
        left = [free.release]
        return lambda: left.pop()() if left else None


class Callers:
    """Whose request it is: that of a token's holder, of a session, or of an address where there is neither.

    What is made up is as good as nothing, so inventing new ones wins no new allowance. What was found out is remembered
    for a while, and no longer than that because tokens can be revoked.
    """

    def __init__(self, identification: Identification, clock: Callable[[], float] = time.monotonic) -> None:
        self._identification = identification
        self._clock = clock
        self._known: OrderedDict[str, tuple[RequestSource, float]] = OrderedDict()
        self._asking: dict[str, anyio.Lock] = {}

    async def of(
        self, address: str, authorization: bytes | None, cookies: bytes | None = None, host: bytes = b""
    ) -> RequestSource:
        secret = (authorization or b"").decode("latin-1").partition(" ")[2].strip()
        cookie = "" if secret else _session_cookie(cookies, host)
        if not secret and not cookie:
            return RequestSource(f"address {address}")
        memory = hashlib.sha256(f"{bool(secret)} {secret or cookie}".encode()).hexdigest()
        found = self._remembered(memory) or await self._looked_up(memory, secret, cookie)
        return RequestSource(f"address {address}") if found is None else found

    def _remembered(self, memory: str) -> RequestSource | None:
        known, until = self._known.get(memory, (None, 0.0))
        return known if self._clock() < until else None

    async def _looked_up(self, memory: str, secret: str, cookie: str) -> RequestSource | None:
        """A database that does not answer stops this request and not the event loop.

        Many who come with the same token at once wait for one look-up, not for one each; who waited too long because
        there were so many of them is let in all the same, once somebody knows the token.
        """
        with anyio.move_on_after(LOOK_UP_S):
            async with self._asking.setdefault(memory, anyio.Lock()):
                if (found := self._remembered(memory)) is not None:
                    return found
                try:
                    found = await anyio.to_thread.run_sync(
                        self._identify, secret, cookie, abandon_on_cancel=True, limiter=self._lookups
                    )
                finally:
                    self._asking.pop(memory, None)
                if found is not None:
                    self._known[memory] = found, self._clock() + _REMEMBERED_S
                    if len(self._known) > _MOST_CALLERS:
                        self._known.popitem(last=False)
                return found
        if (found := self._remembered(memory)) is not None:
            return found
        raise UnavailableError(
            f"the database has not answered for {LOOK_UP_S:.0f} s", "a database that answers", "Try again in a moment"
        )

    @cached_property
    def _lookups(self) -> anyio.CapacityLimiter:
        """Threads of their own: those of requests may all be waiting."""
        return anyio.CapacityLimiter(_LOOK_UPS)

    def _identify(self, secret: str, cookie: str) -> RequestSource | None:
        if secret:
            holder = self._identification.holder(secret)
            return None if holder is None else RequestSource(f"token {holder.id}", holder.sees)
        holder = self._identification.session_holder(cookie)
        return None if holder is None else RequestSource(f"session {holder.session_id}", holder.sees)


def _session_cookie(cookies: bytes | None, host: bytes) -> str:
    if not cookies:
        return ""
    try:
        found = SimpleCookie(cookies.decode("latin-1")).get(session_cookie(host.decode("latin-1")))
    except CookieError:
        return ""
    return "" if found is None else found.value


class RequestLimits:
    """Middleware: refuses what is too large or too much, with the same kind of answer as everything else."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body: int,
        buckets: Buckets,
        callers: Callers,
        quotas: Quotas | None = None,
        storage_trouble: Callable[[], str] = lambda: "",
    ) -> None:
        """``storage_trouble`` says why nothing can be looked up now, if so; asking it costs nothing."""
        self._app = app
        self._storage_trouble = storage_trouble
        self._max_body = max_body
        self._buckets = buckets
        self._callers = callers
        self._quotas = quotas
        self._shares = TenantShares()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNCOUNTED:
            await self._app(scope, receive, send)
            return
        try:
            await self._limited(scope, receive, send)
        except UnavailableError as error:
            await _refuse(send, error, _LATER)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        if trouble := self._storage_trouble():
            raise UnavailableError(trouble, "a database that answers", "Try again in a moment")
        headers = {name.lower(): value for name, value in scope["headers"]}
        address = str((scope.get("client") or ("unknown",))[0])
        source = await self._callers.of(
            address, headers.get(b"authorization"), headers.get(b"cookie"), headers.get(b"host", b"")
        )
        if late := self._too_many(source):
            await _refuse(send, *late)
        elif _announced(headers) > self._max_body:
            await _refuse(send, self._too_large(), _HANG_UP)
        elif b"%00" in scope.get("raw_path", b"") or b"%00" in scope["query_string"]:
            await _refuse(send, RequestError("The address holds a NUL character", "none of them", "Leave it out"))
        else:
            await self._in_turn(source.tenant, scope, receive, send)

    async def _in_turn(self, tenant: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when its tenant has room for it, which it holds until its answer begins."""
        if tenant is None:
            await self._pass_on(scope, receive, send)
            return
        try:
            give_back = await self._shares.take(tenant)
        except TooManyError as error:
            await _refuse(send, error, _LATER)
            return

        async def answering(message: Message) -> None:
            if message["type"] == "http.response.start":
                give_back()
            await send(message)

        try:
            await self._pass_on(scope, receive, answering)
        finally:
            give_back()

    def _too_many(self, source: RequestSource) -> tuple[TooManyError, dict[str, str]] | None:
        """Why it has to wait, if it has: its own allowance is spent, or its tenant's."""
        if wait := self._buckets.take(source.key):
            return _late("You sent too many requests", wait)
        rate = self._quotas.of(source.tenant).requests_per_s if self._quotas and source.tenant else None
        if rate is not None and (wait := self._buckets.take(f"tenant {source.tenant}", rate)):
            return _late(f"Tenant {source.tenant} sent more than its {rate:g} requests a second", wait)
        return None

    def _too_large(self) -> TooLargeError:
        return TooLargeError("The request is too large", f"at most {self._max_body} bytes", "Send less")

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A body that does not say how long it is gets counted on the way in, and has to come to an end.

        Whoever reads the body is inside the framework, which lets only its own kind of error through as it is.
        """
        received, more, deadline = 0, True, time.monotonic() + _BODY_WITHIN_S

        async def counted() -> Message:
            nonlocal received, more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "The request did not end in time", headers=_HANG_UP) from None
            received += len(message.get("body", b""))
            more = bool(message.get("more_body"))
            if received > self._max_body:
                raise HTTPException(413, str(self._too_large()), headers=_HANG_UP)
            return message

        await self._app(scope, counted, send)


_LATER = {"retry-after": "2"}
_HANG_UP = {"connection": "close"}
"""What is left of a body nobody reads must not be taken for the next request on the same connection."""


def _late(why: str, wait: float) -> tuple[TooManyError, dict[str, str]]:
    error = TooManyError(why, "fewer of them per second", f"Wait {wait:.2f} s")
    return error, {"retry-after": str(max(1, round(wait)))}


def _announced(headers: dict[bytes, bytes]) -> int:
    text = headers.get(b"content-length", b"0")
    return int(text) if text.isdigit() and len(text) < 20 else 0


async def _refuse(send: Send, error: RequestError, headers: dict[str, str] | None = None) -> None:
    body = json.dumps(problem(error)).encode()
    fields: dict[str, Any] = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
