"""How much one caller may send, and how often. Plain ASGI, so that a body is refused before it is in memory."""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

import anyio
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.wire import MEDIA_TYPE, RequestError, TooLargeError, TooManyError, UnavailableError, problem

_MOST_CALLERS = 10_000
_REMEMBERED_S = 30.0
_LOOK_UPS = 8
LOOK_UP_S = 5.0
"""How long a token is looked up before whoever showed it is asked to come again."""
_HEALTH = frozenset({"/healthz", "/readyz"})
"""Paths that answer whatever else does not."""


class Buckets:
    """A token bucket per caller: ``rate`` requests a second on average, ``burst`` at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """0 if the request may pass, else the seconds to wait."""
        now = self._clock()
        level, at = self._levels.pop(caller, (float(self._burst), now))
        level = min(self._burst, level + (now - at) * self._rate)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self._rate
        self._levels[caller] = (level - 1.0 if not wait else level, now)
        if len(self._levels) > _MOST_CALLERS:
            self._levels.popitem(last=False)
        return wait


class Callers:
    """Whose request it is: that of a token's holder, or of an address where there is no valid token.

    A made-up token is as good as none, so inventing new ones wins no new allowance. ``identify`` may ask a database;
    what it says of a valid token is remembered for a while, and no longer than that because tokens can be revoked.
    """

    def __init__(self, identify: Callable[[str], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._identify = identify
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def of(self, address: str, authorization: bytes | None) -> str:
        """May ask, and so wait for the database."""
        if (known := self.remembered(address, authorization)) is not None:
            return known
        secret = _secret(authorization)
        holder = self._holder(secret)
        return f"address {address}" if holder is None else f"token {holder}"

    def remembered(self, address: str, authorization: bytes | None) -> str | None:
        """The same without asking anybody; nothing if that has to be."""
        secret = _secret(authorization)
        if not secret:
            return f"address {address}"
        known, until = self._known.get(_key(secret), ("", 0.0))
        return f"token {known}" if self._clock() < until else None

    def _holder(self, secret: str) -> str | None:
        holder = self._identify(secret)
        if holder is not None:
            self._known[_key(secret)] = holder, self._clock() + _REMEMBERED_S
            if len(self._known) > _MOST_CALLERS:
                self._known.popitem(last=False)
        return holder


def _secret(authorization: bytes | None) -> str:
    return (authorization or b"").decode("latin-1").partition(" ")[2].strip()


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class RequestLimits:
    """Middleware: refuses what is too large or too much, with the same kind of answer as everything else."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body: int,
        buckets: Buckets,
        callers: Callers,
        storage_trouble: Callable[[], str] = lambda: "",
    ) -> None:
        """``storage_trouble`` says why nothing can be looked up now, if so; asking it costs nothing."""
        self._app = app
        self._storage_trouble = storage_trouble
        self._max_body = max_body
        self._buckets = buckets
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _HEALTH:
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
        if wait := self._buckets.take(await self._caller(address, headers.get(b"authorization"))):
            late = TooManyError("You sent too many requests", "fewer of them per second", f"Wait {wait:.2f} s")
            await _refuse(send, late, {"retry-after": str(max(1, round(wait)))})
        elif _announced(headers) > self._max_body:
            await _refuse(send, self._too_large(), _HANG_UP)
        else:
            await self._pass_on(scope, receive, send)

    async def _caller(self, address: str, authorization: bytes | None) -> str:
        """Whose request it is; a database that does not answer stops this request and not the event loop."""
        known = self._callers.remembered(address, authorization)
        if known is not None:
            return known
        with anyio.move_on_after(LOOK_UP_S):
            return await anyio.to_thread.run_sync(
                self._callers.of, address, authorization, abandon_on_cancel=True, limiter=self._lookups
            )
        raise UnavailableError(
            f"the database has not answered for {LOOK_UP_S:.0f} s", "a database that answers", "Try again in a moment"
        )

    @cached_property
    def _lookups(self) -> anyio.CapacityLimiter:
        """Threads of their own: those of requests may all be waiting."""
        return anyio.CapacityLimiter(_LOOK_UPS)

    def _too_large(self) -> TooLargeError:
        return TooLargeError("The request is too large", f"at most {self._max_body} bytes", "Send less")

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A body that does not say how long it is gets counted on the way in.

        Whoever reads the body is inside the framework, which lets only its own kind of error through as it is.
        """
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_body:
                raise HTTPException(413, str(self._too_large()), headers=_HANG_UP)
            return message

        await self._app(scope, counted, send)


_LATER = {"retry-after": "2"}
_HANG_UP = {"connection": "close"}
"""What is left of a body nobody reads must not be taken for the next request on the same connection."""


def _announced(headers: dict[bytes, bytes]) -> int:
    text = headers.get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


async def _refuse(send: Send, error: RequestError, headers: dict[str, str] | None = None) -> None:
    body = json.dumps(problem(error)).encode()
    fields: dict[str, Any] = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
