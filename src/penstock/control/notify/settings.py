"""Who is told what, as an admin sets it up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.control.notify.notices import NoticeKind
from penstock.control.notify.recipients import Channel, Recipient
from penstock.core import InputError, UnknownNameError

_DEFAULT = tuple(kind for kind in NoticeKind if kind is not NoticeKind.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRule:
    """Whom to tell what; of the jobs of these tenants, or of all."""

    to: tuple[Recipient, ...]
    on: tuple[NoticeKind, ...] = _DEFAULT
    tenants: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "NotifyRule":
        """From a table, in the configuration or in a job file."""
        _check_keys("notify", table, cls.__dataclass_fields__)
        names = table.get("on")
        on = _DEFAULT if names is None else tuple(_kind(name) for name in _texts("on", names))
        to = tuple(Recipient.parse(text) for text in _texts("to", table.get("to", ())))
        if not to:
            raise InputError("notify without to", "a list of addresses", "Try to: [mailto:ann@example.org]")
        return cls(to=to, on=on, tenants=_texts("tenants", table.get("tenants", ())))

    def applies_to(self, tenant: str) -> bool:
        return not self.tenants or tenant in self.tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """``allow`` is what job files may name: beginnings of URLs, and mail domains such as ``@example.org``."""

    rules: tuple[NotifyRule, ...] = ()
    allow: tuple[str, ...] = ()
    smtp: str = ""
    smtp_user: str = ""
    smtp_password_file: Path | None = None
    starttls: bool = False
    sender: str = "penstock@localhost"
    attempts: int = 8
    first_wait_s: float = field(default=2.0)

    def __post_init__(self) -> None:
        if self.smtp and urlsplit(self.smtp).scheme not in ("smtp", "smtps"):
            raise InputError(f"smtp {self.smtp!r}", "smtp://HOST:PORT or smtps://HOST:PORT")
        if not self.smtp and any(to.channel is Channel.EMAIL for rule in self.rules for to in rule.to):
            raise InputError("e-mail without smtp", "the address of a mail server", 'Set smtp = "smtp://HOST:25"')

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "NotifySettings":
        """From a table of the configuration file."""
        _check_keys("notify", table, cls.__dataclass_fields__)
        rules = tuple(NotifyRule.of(rule) for rule in table.get("rules", ()))
        file = table.get("smtp_password_file")
        read = {"rules": rules, "allow": _texts("allow", table.get("allow", ()))}
        return cls(**{**table, **read, "smtp_password_file": Path(file).expanduser() if file else None})

    def job_rule(self, spec: Mapping[str, Any]) -> NotifyRule | None:
        """Whom a job file wants told; raises where it names somebody whom it may not."""
        if not (wanted := spec.get("notify")):
            return None
        rule = NotifyRule.of(wanted)
        for recipient in rule.to:
            if not recipient.is_allowed(self.allow) or (recipient.channel is Channel.EMAIL and not self.smtp):
                allowed = ", ".join(self.allow) or "nobody: this server lets job files notify no one"
                raise InputError(f"notify: {recipient.shown}", allowed, "Ask an admin to add it to notify.allow")
        return rule


def _kind(name: str) -> NoticeKind:
    if name not in tuple(NoticeKind):
        raise UnknownNameError.of("notification", name, tuple(NoticeKind))
    return NoticeKind(name)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise InputError(f"notify.{key} = {value!r}", "a list of texts")
    return tuple(value)


def _check_keys(what: str, table: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"{what} = {table!r}", "a table")
    for key in table:
        if key not in known:
            raise UnknownNameError.of(f"key of {what}:", key, known)
