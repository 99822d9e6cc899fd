"""Where notifications may go: addresses that people write, and what of them an admin allows.

A job that could name any address would have the server call whatever the server can reach. So a job names only what the
settings allow, compared part by part and not as text. Addresses of chats are secrets: only their hosts are ever shown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from penstock.core import InputError

_MAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_LONGEST = 2000
_FORMS = "https://…, slack:https://… or mailto:NAME@HOST"


class Channel(StrEnum):
    """How something is told."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "mailto"


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody to tell."""

    channel: Channel
    address: str

    @classmethod
    def parse(cls, text: str) -> "Recipient":
        """From what people write; raises :class:`~penstock.core.InputError`."""
        scheme, _, rest = text.partition(":")
        if scheme == "mailto" and _MAIL.fullmatch(rest):
            return cls(Channel.EMAIL, rest)
        channel, url = (Channel.SLACK, rest) if scheme == "slack" else (Channel.WEBHOOK, text)
        if len(text) <= _LONGEST and _is_plain_url(url):
            return cls(channel, url)
        raise InputError(f"{shown_address(text)!r} is nobody to notify", _FORMS, "Try mailto:ann@example.org")

    def __str__(self) -> str:
        return self.address if self.channel is Channel.WEBHOOK else f"{self.channel}:{self.address}"

    @property
    def shown(self) -> str:
        """Without what somebody could use who reads it."""
        return shown_address(str(self))

    def is_allowed(self, allowed: Iterable[str]) -> bool:
        """Whether a job may name it: a mail domain (``@example.org``), or the beginning of a URL."""
        if self.channel is Channel.EMAIL:
            return any(each.startswith("@") and self.address.endswith(each) for each in allowed)
        return any(_is_below(urlsplit(self.address), urlsplit(each)) for each in allowed if not each.startswith("@"))


def shown_address(text: str) -> str:
    """An address with nothing behind its host."""
    prefix, url = ("slack:", text[6:]) if text.startswith("slack:") else ("", text)
    parts = urlsplit(url)
    return f"{prefix}{parts.scheme}://{parts.hostname or ''}/***" if parts.scheme in ("http", "https") else text[:200]


def _is_plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    printable = url.isascii() and url.isprintable() and " " not in url
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and printable


def _is_below(url: SplitResult, base: SplitResult) -> bool:
    """Whether a URL is the base or begins with it at the end of a part; no ``..`` leads out of it."""
    same = (url.scheme, url.hostname, url.port) == (base.scheme, base.hostname, base.port)
    path, start = url.path or "/", base.path or "/"
    inside = path == start or path.startswith(start if start.endswith("/") else f"{start}/")
    return same and inside and ".." not in path.split("/") and "%" not in path
