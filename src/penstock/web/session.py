"""Who looks at the pages: sign-in with a token, or with a link that works once.

A signed cookie says which token was shown and when; the secret itself never leaves the form. Every request, and every
click on an open page, asks the store whether that token still counts, so revoking it signs its holder out at once.
"""

import hashlib
import html
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from itsdangerous import BadData, URLSafeTimedSerializer

from penstock.control import Caller, Platform, Principal
from penstock.tools import write_atomically
from penstock.web.urls import ROOT, STYLE_URL
from penstock.wire import UnauthorizedError

COOKIE = "penstock_session"
LIFETIME_S = 7 * 86400
_LINK_LIFETIME_S = 300.0
_MOST_LINKS = 1000


class SignInLinks:
    """Codes that sign somebody in once, within five minutes. They are kept as hashes, in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def make(self, token_id: str) -> str:
        code = secrets.token_urlsafe(24)
        with self._lock:
            now = self._clock()
            self._codes = {key: known for key, known in self._codes.items() if known[1] > now}
            while len(self._codes) >= _MOST_LINKS:
                self._codes.pop(next(iter(self._codes)))
            self._codes[_hash(code)] = token_id, now + _LINK_LIFETIME_S
        return code

    def use(self, code: str) -> str | None:
        """The token the code was made with; the next time there is none."""
        with self._lock:
            token_id, ends = self._codes.pop(_hash(code), ("", 0.0))
        return token_id if token_id and ends > self._clock() else None


@dataclass(frozen=True, slots=True)
class Sessions:
    """Makes and reads the cookie."""

    secret: str
    platform: Platform

    def cookie_for(self, token_id: str) -> str:
        return self._signer().dumps(token_id)

    def holder(self, cookie: str | None) -> Principal | None:
        """Whoever the cookie belongs to, if it is ours, not too old, and its token still counts."""
        try:
            token_id = self._signer().loads(cookie or "", max_age=LIFETIME_S)
        except BadData:
            return None
        return self.platform.find_holder(token_id) if isinstance(token_id, str) else None

    def _signer(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self.secret, salt="penstock.session")


def signing_secret(path: Path) -> str:
    """The key that signs cookies: made once, for nobody else's eyes, so that a restart signs nobody out."""
    stored = path.read_text().strip() if path.exists() else ""
    if stored:
        return stored
    made = secrets.token_urlsafe(32)
    write_atomically(path, made, durable=True, mode=0o600)
    return made


def routes(sessions: Sessions) -> APIRouter:
    """Signing in and out. Plain pages: they work before any script has loaded."""
    router = APIRouter(include_in_schema=False)
    links = SignInLinks()

    @router.get(f"{ROOT}/sign-in")
    def form(request: Request) -> Response:
        if sessions.holder(request.cookies.get(COOKIE)) is not None:
            return RedirectResponse(_inside(request.query_params.get("next")), 303)
        return _form(_inside(request.query_params.get("next")))

    @router.post(f"{ROOT}/sign-in")
    async def sign_in(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        target = _inside(fields.get("next", [""])[0])
        try:
            holder = sessions.platform.authenticate(fields.get("token", [""])[0])
        except UnauthorizedError as refusal:
            return _form(target, str(refusal), 401)
        return _entered(request, sessions.cookie_for(holder.id), target)

    @router.get(f"{ROOT}/enter/{{code}}")
    def enter(code: str, request: Request) -> Response:
        token_id = links.use(code)
        if token_id is None or sessions.platform.find_holder(token_id) is None:
            return _form(f"{ROOT}/", "That link was used before, or is too old; penstock dashboard makes another.", 401)
        return _entered(request, sessions.cookie_for(token_id), ROOT + "/")

    @router.post(f"{ROOT}/sign-out")
    def sign_out() -> Response:
        response = RedirectResponse(f"{ROOT}/sign-in", 303)
        response.delete_cookie(COOKIE, path=ROOT)
        return response

    @router.post("/v1/sign-in-links", status_code=201, include_in_schema=True, tags=["platform"])
    def make_link(who: Caller) -> dict[str, str]:
        """A path that signs a browser in once, as whoever asks."""
        return {"path": f"{ROOT}/enter/{links.make(who.id)}"}

    return router


def _entered(request: Request, cookie: str, target: str) -> Response:
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response = RedirectResponse(target, 303)
    response.set_cookie(COOKIE, cookie, max_age=LIFETIME_S, path=ROOT, httponly=True, samesite="lax", secure=secure)
    return response


def sign_in_url(wanted: str) -> str:
    return f"{ROOT}/sign-in?next={quote(_inside(wanted), safe='')}"


def _inside(target: str | None) -> str:
    """A path of ours, whatever was asked for: nobody is sent elsewhere after signing in."""
    parts = urlsplit(target or "")
    inside = not parts.scheme and not parts.netloc and parts.path.startswith(f"{ROOT}/") and "\\" not in parts.path
    return parts.path if inside else f"{ROOT}/"


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _form(target: str, trouble: str = "", status: int = 200) -> Response:
    alert = f'<p class="ps-trouble" role="alert" id="trouble">{html.escape(trouble)}</p>' if trouble else ""
    described = "hint trouble" if trouble else "hint"
    page = _PAGE.format(target=html.escape(target), alert=alert, described=described, style=STYLE_URL, root=ROOT)
    return HTMLResponse(page, status)


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in · Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><link rel="stylesheet" href="{style}"></head>
<body class="ps-plain"><main><form class="ps-card ps-sign-in" method="post" action="{root}/sign-in">
<p class="ps-brand">Penstock</p><h1>Sign in</h1>{alert}
<input type="hidden" name="next" value="{target}">
<label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus
 aria-describedby="{described}">
<p class="ps-soft" id="hint">On the machine that runs the server, <code>penstock dashboard</code> signs you in without
 one. Elsewhere an admin makes one with <code>penstock token create</code>.</p>
<button class="ps-primary" type="submit">Sign in</button></form></main></body></html>"""
