"""Who looks at the pages: sign-in with a token, or with a link that works once.

The server keeps a session for each browser and the browser a random secret that stands for it. Every request, and every
click on an open page, asks whether session and token still count: signing out in one tab ends all of them, and revoking
a token signs its holder out everywhere, at once.
"""

import hashlib
import html
import secrets
import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from penstock.control import SESSION_LIFETIME_S, Action, Caller, Credentials, Principal, require, session_cookie
from penstock.web.urls import ROOT, SCRIPT_URL, STYLE_URL
from penstock.wire import RequestError

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

    def holder(self, code: str) -> str | None:
        """Return the token the code was made with, and leave the code as it is."""
        with self._lock:
            return self._codes.get(_hash(code), (None, 0.0))[0]

    def use(self, code: str) -> str | None:
        """The token the code was made with; the next time there is none."""
        with self._lock:
            token_id, ends = self._codes.pop(_hash(code), ("", 0.0))
        return token_id if token_id and ends > self._clock() else None


def signed_in(credentials: Credentials, request: HTTPConnection) -> Principal | None:
    """Return the user whose browser sent this request, if that user is signed in."""
    cookie = request.cookies.get(session_cookie(request.headers.get("host")))
    return credentials.session_holder(cookie, address_of(request))


def is_foreign(request: HTTPConnection) -> bool:
    """Return whether a page of another site, or of another port of this host, sent the request."""
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


def entered(credentials: Credentials, request: Request, who: Principal, target: str) -> Response:
    """The browser of somebody who may look at the pages is let in."""
    require(who, Action.LOOK)
    response = RedirectResponse(target, 303)
    response.set_cookie(
        session_cookie(request.headers.get("host")), credentials.sign_in(who, address_of(request)), path=ROOT,
        max_age=int(SESSION_LIFETIME_S), httponly=True, samesite="lax", secure=request.url.scheme == "https",
    )  # fmt: skip
    return response


def routes(credentials: Credentials, single_sign_on: str = "") -> APIRouter:
    """Signing in and out. Plain pages: they work before any script has loaded."""
    router = APIRouter(include_in_schema=False)
    links = SignInLinks()

    @router.get(f"{ROOT}/sign-in")
    def form(request: Request) -> Response:
        target = inside(request.query_params.get("next"))
        if signed_in(credentials, request) is not None:
            return RedirectResponse(target, 303)
        return sign_in_form(target, _ENDED if "ended" in request.query_params else "", 200, single_sign_on)

    @router.post(f"{ROOT}/sign-in")
    async def sign_in(request: Request) -> Response:
        if is_foreign(request):
            return sign_in_form(f"{ROOT}/", _FOREIGN, 403, single_sign_on)
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        return await run_in_threadpool(with_token, request, fields)

    def with_token(request: Request, fields: dict[str, list[str]]) -> Response:
        target = inside(fields.get("next", [""])[0])
        try:
            who = credentials.authenticate(fields.get("token", [""])[0], address_of(request))
            return entered(credentials, request, who, target)
        except RequestError as refusal:
            credentials.refuse("", address_of(request))
            return sign_in_form(target, str(refusal), refusal.status, single_sign_on)

    @router.get(f"{ROOT}/enter/{{code}}")
    def ask_or_enter(code: str, request: Request) -> Response:
        """A link on a page of another site, or of another token than that of the session, asks before it signs in."""
        holder, now = links.holder(code), signed_in(credentials, request)
        is_own = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if holder is None or (now.id == holder if now else is_own):
            return enter(code, request)
        return HTMLResponse(_page(_ASK.format(root=ROOT, code=quote(code, safe=""), now=_said(now))))

    @router.post(f"{ROOT}/enter/{{code}}")
    def enter(code: str, request: Request) -> Response:
        if is_foreign(request):
            return sign_in_form(f"{ROOT}/", _FOREIGN, 403, single_sign_on)
        token_id = links.use(code)
        who = None if token_id is None else credentials.find(token_id)
        if who is None:
            return sign_in_form(f"{ROOT}/", _STALE_LINK, 401, single_sign_on)
        return entered(credentials, request, who, f"{ROOT}/")

    @router.get(f"{ROOT}/session")
    def session(request: Request) -> Response:
        """Whether this browser is signed in; a page that lost its connection asks."""
        return Response(status_code=401 if signed_in(credentials, request) is None else 204)

    @router.post(f"{ROOT}/sign-out")
    def sign_out(request: Request) -> Response:
        who = signed_in(credentials, request)
        if who is not None:
            credentials.sign_out(who)
        response = RedirectResponse(f"{ROOT}/sign-in", 303)
        response.delete_cookie(session_cookie(request.headers.get("host")), path=ROOT)
        return response

    @router.post("/v1/sign-in-links", status_code=201, include_in_schema=True, tags=["platform"])
    def make_link(who: Caller) -> dict[str, str]:
        """A path that signs a browser in once, as whoever asks."""
        return {"path": f"{ROOT}/enter/{links.make(require(who, Action.LOOK).id)}"}

    return router


_ENDED = "You are signed out. Nothing you did since then was carried out."
_FOREIGN = "A page of another site sent this form; nobody was signed in. Use the form below."
_STALE_LINK = "That link was used before, or is too old; penstock dashboard makes another."


def _said(who: Principal | None) -> str:
    return f"<p>You are signed in as <b>{html.escape(who.name)}</b>; it is a link of another token.</p>" if who else ""


def address_of(request: HTTPConnection) -> str:
    return request.client.host if request.client is not None else ""


def sign_in_url(wanted: str) -> str:
    return f"{ROOT}/sign-in?next={quote(inside(wanted), safe='')}"


def inside(target: str | None) -> str:
    """A path of ours, whatever was asked for: nobody is sent elsewhere after signing in."""
    parts = urlsplit(target or "")
    inside = not parts.scheme and not parts.netloc and parts.path.startswith(f"{ROOT}/") and "\\" not in parts.path
    return parts.path if inside else f"{ROOT}/"


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def sign_in_form(target: str, trouble: str = "", status: int = 200, single_sign_on: str = "") -> Response:
    """The form; ``single_sign_on`` is what the way to an identity provider is called, where there is one."""
    alert = f'<p class="ps-trouble" role="alert" id="trouble">{html.escape(trouble)}</p>' if trouble else ""
    described = "hint trouble" if trouble else "hint"
    elsewhere = _ELSEWHERE.format(root=ROOT, target=quote(target, safe=""), label=html.escape(single_sign_on))
    form = _FORM.format(
        target=html.escape(target), alert=alert, described=described, root=ROOT,
        elsewhere=elsewhere if single_sign_on else "",
    )  # fmt: skip
    return HTMLResponse(_page(form), status)


def _page(form: str) -> str:
    return _PAGE.format(style=STYLE_URL, script=SCRIPT_URL, form=form)


_ELSEWHERE = '<p><a class="ps-primary" href="{root}/oidc/start?next={target}">Sign in with {label}</a></p>'
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in · Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><link rel="stylesheet" href="{style}">
<script src="{script}" data-tell-zone></script></head>
<body class="ps-plain"><main>{form}</main></body></html>"""
_FORM = """<form class="ps-card ps-sign-in" method="post" action="{root}/sign-in">
<p class="ps-brand">Penstock</p><h1>Sign in</h1>{alert}{elsewhere}
<input type="hidden" name="next" value="{target}">
<label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus
 aria-describedby="{described}">
<p class="ps-soft" id="hint">On the machine that runs the server, <code>penstock dashboard</code> signs you in without
 one. Elsewhere an admin makes one with <code>penstock token create</code>.</p>
<button class="ps-primary" type="submit">Sign in</button></form>"""
_ASK = """<form class="ps-card ps-sign-in" method="post" action="{root}/enter/{code}">
<p class="ps-brand">Penstock</p><h1>Sign in with this link?</h1>{now}
<p class="ps-soft">Go on only if you asked for this link yourself; else close this page.</p>
<button class="ps-primary" type="submit">Sign in</button></form>"""
