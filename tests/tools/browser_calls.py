"""Every call to a browser ends. Playwright limits some of its calls (clicks, waits), and others not at all: asking a
page for a value, pressing a key, opening and closing a page wait for as long as the browser says nothing. A browser
that fell silent would hold up the whole run, and nobody would learn over what.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from playwright._impl import _sync_base

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CALL_LIMIT_S = 90.0
"""Longer than any call's own limit, which says more when it passes."""
CLOSING_LIMIT_S = 15.0
"""Chromium now and then does not answer to a profile being closed while a page of it goes elsewhere."""


class SilentBrowserError(AssertionError):
    """A browser did not answer a call; what was asked is in the message."""


@contextmanager
def limited_calls(limit_s: float = CALL_LIMIT_S) -> Iterator[list[str]]:
    """Within this block a call fails after its time; the list names those that did, so do those of blocks around it."""
    silent: list[str] = []
    usual: Callable[[Any, Awaitable[Any]], Any] = _sync_base.SyncBase._sync

    def limited(self: Any, call: Awaitable[Any]) -> Any:
        return usual(self, _within(limit_s, call, silent))

    _sync_base.SyncBase._sync = limited  # type: ignore[method-assign]
    try:
        yield silent
    finally:
        _sync_base.SyncBase._sync = usual  # type: ignore[method-assign]


def close(opened: "Browser | BrowserContext") -> None:
    """Close what nobody needs any more. A browser that does not answer to that fails no test: the next gets another."""
    with limited_calls(CLOSING_LIMIT_S), suppress(SilentBrowserError):
        opened.close()


async def _within(limit_s: float, call: Awaitable[Any], silent: list[str]) -> Any:
    asked = _in_words(call)
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await call
    except SilentBrowserError as error:
        silent.append(str(error))
        raise
    except TimeoutError as error:
        if not limit.expired():
            raise
        silent.append(asked)
        raise SilentBrowserError(f"the browser did not answer {asked} within {limit_s:g} s") from error


def _in_words(call: Awaitable[Any]) -> str:
    """The call as it was written, as far as it can be known: ``Page.evaluate(expression='1 + 1')``."""
    frame = getattr(call, "cr_frame", None)
    given = frame.f_locals if frame is not None else {}
    words = (f"{name}={value!r}"[:200] for name, value in given.items() if name != "self" and value is not None)
    return f"{getattr(call, '__qualname__', 'a call')}({', '.join(words)})"
