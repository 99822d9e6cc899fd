"""Whom a client believes to be its server: certificates of a given authority, or the very one a local server shows."""

import ssl
from pathlib import Path

from penstock.core import InputError

CA_VARIABLE = "PENSTOCK_CA"


def trusting_authority(file: str) -> ssl.SSLContext:
    """Servers whose certificate the authorities in this file, in PEM, vouch for, and no others."""
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise InputError(
            f"{file} cannot be used as a certificate authority: {error}", "a file of certificates in PEM",
            f"Check --ca or {CA_VARIABLE}",
        ) from None  # fmt: skip


def trusting_only(certificate: Path) -> ssl.SSLContext:
    """The one server that shows this certificate, under whatever name it is reached."""
    context = trusting_authority(str(certificate))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
