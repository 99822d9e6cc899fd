"""Secrets of tenants: stored by name, given to jobs that ask for them, and never shown again.

One file for each secret, below the data directory, which nobody but the server can enter; not in the database, so that
neither the log nor a backup of it holds one. What goes into the log, into answers and into job files is names.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.core import SECRET_NAME, TENANT_NAME, InputError, UnknownNameError, is_storable
from penstock.tools import write_atomically

LARGEST_BYTES = 64 << 10
_NAME, _TENANT = re.compile(SECRET_NAME), re.compile(TENANT_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """That there is a secret, and since when it is what it is."""

    name: str
    tenant: str
    set_at: float


class SecretRepository:
    """The secrets below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, tenant: str, name: str, value: str) -> StoredSecret:
        """Keep a value, in the place of the one that was there."""
        if not _NAME.fullmatch(name):
            raise InputError(f"the name {name!r}", "letters, digits, '_', '.' and '-', at most 128, a letter first")
        size = len(value.encode(errors="surrogatepass"))
        if not 0 < size <= LARGEST_BYTES or not is_storable(value):
            raise InputError(f"a secret of {size} bytes", f"1 to {LARGEST_BYTES} bytes of text without NUL")
        folder = self._folder(tenant)
        for each in (self._directory, folder):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(folder / name, value, durable=True, mode=0o600)
        return self._stored(tenant, folder / name)

    def list(self, tenant: str) -> tuple[StoredSecret, ...]:
        """What there is, by name, without values."""
        folder = self._folder(tenant)
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return tuple(self._stored(tenant, file) for file in files if _NAME.fullmatch(file.name))

    def names(self, tenant: str) -> frozenset[str]:
        return frozenset(secret.name for secret in self.list(tenant))

    def delete(self, tenant: str, name: str) -> bool:
        """Whether there was such a secret."""
        if name not in self.names(tenant):
            return False
        (self._folder(tenant) / name).unlink(missing_ok=True)
        return True

    def values(self, tenant: str, names: Iterable[str]) -> dict[str, str]:
        """The secrets themselves, for whoever starts a job; raises for one that is not there any more."""
        known = self.names(tenant)
        found = {}
        for name in names:
            if name not in known:
                raise UnknownNameError.of("secret", name, known, f"Store it with penstock secrets set {name}")
            found[name] = (self._folder(tenant) / name).read_text()
        return found

    def _folder(self, tenant: str) -> Path:
        if not _TENANT.fullmatch(tenant):
            raise InputError(f"the tenant {tenant!r}", "letters, digits, '.', '_' and '-'")
        return self._directory / tenant

    @staticmethod
    def _stored(tenant: str, file: Path) -> StoredSecret:
        return StoredSecret(name=file.name, tenant=tenant, set_at=os.stat(file).st_mtime)
