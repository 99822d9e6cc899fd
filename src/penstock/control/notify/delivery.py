"""Handing one notification to one address: an HTTP request or an e-mail, with a short patience and no detours.

Redirects are not followed and proxies of the environment not used: what was allowed is what is called.
"""

import http.client
import json
import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import urlsplit

from penstock.control.notify.notices import Notice
from penstock.control.notify.recipients import Channel, Recipient
from penstock.control.notify.settings import NotifySettings
from penstock.core import PenstockError

_PATIENCE_S = 10.0


class DeliveryError(PenstockError):
    """It did not arrive; says why, without the address."""


def deliver(notice: Notice, recipient: Recipient, settings: NotifySettings) -> None:
    """Tell somebody something; raises :class:`DeliveryError`."""
    try:
        if recipient.channel is Channel.EMAIL:
            _mail(notice, recipient.address, settings)
        else:
            document = {"text": notice.text} if recipient.channel is Channel.SLACK else notice.document()
            _post(recipient.address, json.dumps(document).encode())
    except DeliveryError:
        raise
    except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
        raise DeliveryError(type(error).__name__) from error


def _post(url: str, body: bytes) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=_PATIENCE_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=_PATIENCE_S)
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Content-Type": "application/json", "User-Agent": "penstock"}
        connection.request("POST", path, body, headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise DeliveryError(f"it answered {status}")


def _mail(notice: Notice, address: str, settings: NotifySettings) -> None:
    message = EmailMessage()
    message["From"], message["To"] = settings.sender, address
    message["Subject"] = f"[penstock] {notice.name} {notice.kind.value.replace('_', ' ')}"
    message["X-Penstock-Id"] = f"{notice.job_id}:{notice.key}"
    message.set_content(f"{notice.text}\n\nTenant: {notice.tenant}\nJob: {notice.job_id}\n")
    parts = urlsplit(settings.smtp)
    is_secure, host = parts.scheme == "smtps", parts.hostname or "localhost"
    kind = smtplib.SMTP_SSL if is_secure else smtplib.SMTP
    with kind(host, parts.port or (465 if is_secure else 25), timeout=_PATIENCE_S) as server:
        if settings.starttls:
            server.starttls(context=ssl.create_default_context())
        if settings.smtp_user:
            server.login(settings.smtp_user, _password(settings))
        server.send_message(message)


def _password(settings: NotifySettings) -> str:
    return settings.smtp_password_file.read_text().strip() if settings.smtp_password_file else ""
