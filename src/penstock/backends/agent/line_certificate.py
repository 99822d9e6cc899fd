"""The certificate by which agents show workers of other machines that they are who they say.

One for each platform, signed by itself, made once by ``openssl`` beside the runs and readable by the server's user
alone. Workers know it by its fingerprint, which travels with the address of the agent.
"""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.core import InputError, fingerprint
from penstock.tools import file_lock, write_atomically

_DAYS = 36500
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class LineCertificate:
    """A file with the key and the certificate in PEM, and the certificate's fingerprint."""

    file: Path
    pin: str

    @classmethod
    def of(cls, state_dir: Path) -> "LineCertificate":
        """The platform's own, made if there is none yet."""
        file = state_dir / "worker-line.pem"
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file_lock(file.with_suffix(".lock")):
            if not file.exists():
                write_atomically(file, _made(), durable=True, mode=0o600)
        _, begin, rest = file.read_text().partition(_BEGIN)
        text = begin + rest.partition(_END)[0] + _END
        return cls(file, fingerprint(ssl.PEM_cert_to_DER_cert(text)))

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # a ticket makes a line readable on which nothing was said
        context.load_cert_chain(self.file)
        return context


def line_keeper(state_dir: Path) -> Path:
    """The directory whose certificate agents are to show, in which there is one now."""
    place = state_dir.expanduser().resolve()
    LineCertificate.of(place)
    return place


def _made() -> str:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise InputError(
            "a line to workers that is encrypted, and no openssl to make its certificate with",
            "openssl on the server's PATH", "Install it, or set encrypt = false in backend_settings",
        )  # fmt: skip
    words = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "-",
        "-out", "-", "-days", str(_DAYS), "-subj", "/CN=penstock",
    ]  # fmt: skip
    made = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if made.returncode != 0 or _BEGIN not in made.stdout:
        raise InputError(f"openssl cannot make a certificate: {made.stderr.strip()[-300:]}", "an openssl that can")
    return made.stdout
