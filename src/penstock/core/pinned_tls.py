"""TLS towards a peer whose certificate is known by its fingerprint: no authority vouches for it, and none has to.

Whoever hands out an address hands out the fingerprint with it. A peer that shows another certificate is hung up on
before a word is said, so that neither a secret nor an order ever reaches somebody in between.
"""

import hashlib
import hmac
import ssl


def pinning_context() -> ssl.SSLContext:
    """Of a client that compares the fingerprint itself, with :func:`check_fingerprint`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(certificate: bytes) -> str:
    """Of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def check_fingerprint(line: ssl.SSLObject | ssl.SSLSocket, expected: str) -> None:
    """A ConnectionError unless the peer of a line has shown the certificate that was expected."""
    shown = line.getpeercert(binary_form=True)
    if shown is None or not hmac.compare_digest(fingerprint(shown), expected):
        raise ConnectionError("the peer has another certificate than its address names")
