"""Jobs as objects of the cluster: whoever may create a PenstockJob may submit, and its status is what ``show`` tells.

The object is a wish and a window, the platform's log is the truth: an object is submitted once (its uid is the key that
makes repeating harmless), its status follows the job, and deleting it cancels the job, also when no server is there at
that moment: a finalizer keeps the object until one has seen it.
"""

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.backends import ClusterApi, ClusterApiError, KubernetesSettings, LeaderLease, ObjectWatch
from penstock.core import PenstockError
from penstock.serve.config import Config
from penstock.serve.kubernetes.job_schema import FINALIZER, GROUP, PLURAL, VERSION
from penstock.wire import OVER, JobDetail, MissingError

if TYPE_CHECKING:
    from penstock.control import Platform, Principal

_log = logging.getLogger(__name__)

Manifest = dict[str, Any]

EVERY_S = 1.0
REFUSED = "refused"
_WORKING_DIR = "/"


@contextmanager
def job_objects(config: Config, platform: "Platform", leader: LeaderLease | None = None) -> Iterator[None]:
    """Serve the jobs of the backend's namespace, where the cluster knows what a PenstockJob is."""
    settings = KubernetesSettings.of(config.backend_settings)
    api = ClusterApi(context=settings.context, kubeconfig=settings.kubeconfig)
    controller = JobController(api, settings.namespace, platform, leader)
    if controller.is_known():
        controller.start()
    else:
        _log.info("the cluster has no PenstockJob: `penstock deploy kubernetes` brings it")
    try:
        yield
    finally:
        controller.stop()


class JobController:
    """One thread that acts and one that watches."""

    def __init__(
        self, api: ClusterApi, namespace: str, platform: "Platform", leader: LeaderLease | None = None
    ) -> None:
        self._api = api
        self._leader = leader
        self._platform = platform
        self._path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        self._who = _principal()
        self._news: queue.SimpleQueue[tuple[Manifest, bool]] = queue.SimpleQueue()
        self._followed: dict[str, tuple[str, Manifest]] = {}
        """By the name of the object: its job, and what its status said last."""
        self._unserved: dict[str, Manifest] = {}
        """Objects by their names for which something failed that may go well later."""
        self._watch = ObjectWatch(api, self._path, changed=lambda _, found, there: self._news.put((found, there)))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="job objects")

    def is_known(self) -> bool:
        try:
            return self._api.find(self._path) is not None
        except PenstockError as error:
            _log.warning("PenstockJobs cannot be listed: %s", error)
            return False

    def start(self) -> None:
        self._watch.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join(EVERY_S + 1.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._serve(*self._news.get(timeout=EVERY_S))
            except queue.Empty:
                for found in list(self._unserved.values()):
                    self._serve(found, there=True)
                self._follow()

    def _serve(self, found: Manifest, there: bool) -> None:
        name = found["metadata"]["name"]
        try:
            self._take(found, there)
            self._unserved.pop(name, None)
        except PenstockError as error:
            self._unserved[name] = found
            _log.warning("PenstockJob %s could not be served, trying again: %s", name, error)

    def _take(self, found: Manifest, there: bool) -> None:
        about, status = found["metadata"], found.get("status") or {}
        if self._leader is not None:
            self._leader.check()
        if not there:
            self._followed.pop(about["name"], None)
        elif "deletionTimestamp" in about:
            self._let_go(about, status)
        elif status.get("job"):
            if status["state"] not in OVER:
                self._followed.setdefault(about["name"], (status["job"], status))
        elif status.get("state") != REFUSED:
            self._submit(found)

    def _submit(self, found: Manifest) -> None:
        about = found["metadata"]
        if FINALIZER not in about.get("finalizers", ()):
            self._patch(about["name"], {"metadata": {"finalizers": [*about.get("finalizers", ()), FINALIZER]}})
        try:
            made = self._platform.submit(_job_file(found), self._who, key=f"kubernetes-{about['uid']}")
        except PenstockError as error:
            words = str(error)
            refusal = {"state": REFUSED, "reason": words, "conditions": [_condition("Accepted", False, words)]}
            self._patch(f"{about['name']}/status", {"status": refusal})
            return
        self._tell(about["name"], made.job)

    def _let_go(self, about: Manifest, status: Manifest) -> None:
        if FINALIZER not in about.get("finalizers", ()):
            return
        if job := status.get("job"):
            try:
                self._platform.cancel(job, self._who)
            except (MissingError, PenstockError) as error:
                _log.info("job %s needs no cancelling: %s", job, error)
        left = [one for one in about["finalizers"] if one != FINALIZER]
        self._patch(about["name"], {"metadata": {"finalizers": left}})
        self._followed.pop(about["name"], None)

    def _follow(self) -> None:
        for name, (job, told) in list(self._followed.items()):
            try:
                detail = self._platform.job(job, self._who)
            except PenstockError:
                self._followed.pop(name, None)
                continue
            if status_of(detail) != told:
                try:
                    self._tell(name, detail)
                except PenstockError as error:
                    _log.warning("the status of PenstockJob %s could not be written: %s", name, error)

    def _tell(self, name: str, detail: JobDetail) -> None:
        status = status_of(detail)
        self._patch(f"{name}/status", {"status": status})
        if detail.state in OVER:
            self._followed.pop(name, None)
        else:
            self._followed[name] = (detail.id, status)

    def _patch(self, name: str, change: Manifest) -> None:
        try:
            self._api.patch(f"{self._path}/{name}", change)
        except ClusterApiError as error:
            if error.status != 404:
                raise


def status_of(detail: JobDetail) -> Manifest:
    """What an object says of its job, as a merge patch: what is None is left out.

    Times are to the minute, so that a forecast that moves by seconds is no news.
    """
    quote, why = detail.quote, detail.reason
    status: Manifest = {
        "job": detail.id, "state": str(detail.state), "reason": why or None, "devices": len(detail.devices) or None,
        "promise": _minute(quote.finish_at) if quote else None, "forecast": _minute(detail.expected_at),
        "conditions": [_condition("Accepted", True, ""), _condition("Complete", detail.state in OVER, why)],
    }  # fmt: skip
    if quote:
        status["quote"] = {
            "verdict": quote.verdict, "reason": quote.reason or None, "finishAt": _minute(quote.finish_at),
            "counterOffer": _minute(quote.counter_offer),
        }  # fmt: skip
    return status


def _condition(kind: str, holds: bool, words: str) -> Manifest:
    return {"type": kind, "status": "True" if holds else "False", **({"message": words} if words else {})}


def _minute(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def _job_file(found: Manifest) -> Manifest:
    spec: Manifest = deepcopy(found.get("spec") or {})
    spec.setdefault("name", found["metadata"]["name"])
    environment = spec.setdefault("environment", {})
    if isinstance(environment, dict):
        environment.setdefault("working_dir", _WORKING_DIR)
    return spec


def _principal() -> "Principal":
    from penstock.control import Principal, Role

    return Principal(id="", name="kubernetes", role=Role.USER, tenant="default")
