"""The right to use a namespace of a cluster: a Lease of the cluster's own, renewed, and a fence for whoever lost it.

Two servers with a database each would grant the same devices and submit the same PenstockJobs. So one of them holds the
Lease ``penstock`` of the namespace, and asks before everything it does there whether it surely still does. A claimant
compares no clocks of two machines: it watches whether the holder renews, for as long as a lease lasts. A holder counts
from before its last renewal was sent and stops earlier than that, so there is no moment at which two may act. Every
change names the version it was made from: of two who change at once the cluster takes one.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from penstock.backends.base import BackendError, ShortageError
from penstock.backends.kubernetes.cluster_api import ClusterApi, ClusterApiError, Manifest
from penstock.core import InputError

_log = logging.getLogger(__name__)

NAME = "penstock"
LEASE_S = 15.0
"""A holder that has not renewed for so long is taken to be gone."""
RENEW_S = 3.0
_SURE = 0.8
"""Part of a lease for which its holder relies on it."""
_LOOK_S = 0.2
_CONFLICT = 409


class NotLeadingError(ShortageError):
    """Another server uses the namespace, or nobody can know at present: nothing may be changed in the cluster."""


class LeaderLease:
    """One server's claim on one namespace. ``holder`` is told to whoever finds it held; a server of the same name is
    the same one, come back."""

    def __init__(
        self, api: ClusterApi, namespace: str, holder: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.holder = holder
        self.lost = False
        self._api = api
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._monotonic = monotonic
        self._version = ""
        self._sure_until = float("-inf")

    def claim(self) -> None:
        """Hold the lease, or be refused by a server that is alive."""
        seen, since = "", self._monotonic()
        while True:
            found = self._api.find(f"{self._path}/{NAME}")
            if self._take(found, is_silent=bool(seen) and self._monotonic() - since >= LEASE_S):
                return
            holder, version = _holder(found), _version(found)
            if seen and version != seen and holder not in ("", self.holder):
                raise InputError(
                    f"another Penstock server uses namespace {self._namespace!r} ({holder})",
                    "one server per namespace of a cluster", "Stop the other one, or give this one its own namespace",
                )  # fmt: skip
            if version != seen:
                _log.warning("namespace %s is held by %s; waiting whether it still lives", self._namespace, holder)
                seen, since = version, self._monotonic()
            time.sleep(_LOOK_S)

    def check(self) -> None:
        """Raises where this server is not, or not surely, the one that uses the namespace."""
        if self.lost:
            raise NotLeadingError(f"another Penstock server has claimed namespace {self._namespace!r}")
        if self._monotonic() > self._sure_until:
            raise NotLeadingError(f"the lease of namespace {self._namespace!r} could not be renewed")

    def renew(self) -> None:
        """Show that we live; raises if somebody else has claimed the lease."""
        began = self._monotonic()
        try:
            self._write({"renewTime": _now()}, began)
        except ClusterApiError as error:
            if error.status not in (404, _CONFLICT):
                raise
            found = self._api.find(f"{self._path}/{NAME}")
            if _holder(found) not in ("", self.holder):
                self._lose(_holder(found))
            self._take(found, is_silent=False)

    def release(self) -> None:
        """The next server need not wait."""
        if not self.lost and self._version:
            self._sure_until = float("-inf")
            self._api.patch(f"{self._path}/{NAME}", _change({"holderIdentity": ""}, self._version))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Claimed, and renewed in the background for as long as the context lasts."""
        self.claim()
        stop = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(stop,), name="cluster lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            stop.set()
            keeper.join(RENEW_S)
            try:
                self.release()
            except BackendError as error:
                _log.warning("the lease of namespace %s could not be released: %s", self._namespace, error)

    def _keep(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_S) and not self.lost:
            try:
                self.renew()
            except NotLeadingError:
                return
            except BackendError as error:
                _log.warning("the lease of namespace %s could not be renewed: %s", self._namespace, error)

    def _take(self, found: Manifest | None, *, is_silent: bool) -> bool:
        """Take the lease if it is free, ours, or held by somebody who is silent; whether that went well."""
        began = self._monotonic()
        ours = {
            "holderIdentity": self.holder, "leaseDurationSeconds": round(LEASE_S), "acquireTime": _now(),
            "renewTime": _now(),
        }  # fmt: skip
        try:
            if found is None:
                first = {"metadata": {"name": NAME}, "spec": {**ours, "leaseTransitions": 0}}
                self._hold(self._api.create(self._path, first), began)
                return True
            if _holder(found) not in ("", self.holder) and not is_silent:
                return False
            self._version = _version(found)
            self._write({**ours, "leaseTransitions": int(found["spec"].get("leaseTransitions") or 0) + 1}, began)
        except ClusterApiError as error:
            if error.status != _CONFLICT:
                raise
            return False  # somebody else was faster
        return True

    def _write(self, values: Manifest, began: float) -> None:
        self._hold(self._api.patch(f"{self._path}/{NAME}", _change(values, self._version)), began)

    def _hold(self, held: Manifest, began: float) -> None:
        self._version = _version(held)
        self._sure_until = began + _SURE * LEASE_S

    def _lose(self, holder: str) -> None:
        self.lost = True
        _log.critical(
            "%s has claimed namespace %s: this server changes nothing there any more and ends", holder, self._namespace
        )
        self.check()


def _change(values: Manifest, version: str) -> Manifest:
    return {"metadata": {"resourceVersion": version}, "spec": values}


def _holder(found: Manifest | None) -> str:
    return str(((found or {}).get("spec") or {}).get("holderIdentity") or "")


def _version(found: Manifest | None) -> str:
    return str(((found or {}).get("metadata") or {}).get("resourceVersion") or "")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
