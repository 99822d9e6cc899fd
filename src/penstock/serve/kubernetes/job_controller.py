"""Jobs as objects of the cluster: whoever may create a PenstockJob may submit, and its status is what ``show`` tells.

The object is a wish and a window, the platform's log is the truth: an object is submitted once (its uid is the key that
makes repeating harmless), its status follows the job, and deleting it cancels the job, also when no server is there at
that moment: a finalizer keeps the object until one has seen it. A spec that was refused is tried again when it has been
changed; one that was submitted is not, and the object says so.
"""

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.backends import ClusterApi, ClusterApiError, KubernetesSettings, LeaderLease, ObjectWatch
from penstock.core import PenstockError
from penstock.serve.config import Config
from penstock.serve.kubernetes.job_schema import FINALIZER, GROUP, PLURAL, VERSION
from penstock.serve.kubernetes.job_status import REFUSED, events_of, refusal_of, status_of
from penstock.serve.kubernetes.job_tenants import JobTenants
from penstock.wire import OVER, JobDetail, MissingError

if TYPE_CHECKING:
    from penstock.control import Platform, Principal

_log = logging.getLogger(__name__)

Manifest = dict[str, Any]

EVERY_S = 1.0
_WORKING_DIR = "/"


@contextmanager
def job_objects(config: Config, platform: "Platform", leader: LeaderLease | None = None) -> Iterator[None]:
    """Serve the jobs of all namespaces that have tenants, where the cluster knows what a PenstockJob is."""
    settings = KubernetesSettings.of(config.backend_settings)
    api = ClusterApi(context=settings.context, kubeconfig=settings.kubeconfig)
    controller = JobController(api, JobTenants.of(settings.tenants, settings.namespace), platform, leader)
    if controller.is_known():
        controller.start()
    else:
        _log.info("the cluster has no PenstockJob: `penstock deploy kubernetes` brings it")
    try:
        yield
    finally:
        controller.stop()


@dataclass(frozen=True, slots=True)
class _Followed:
    """An object whose job is not over: its metadata, whose it is, and what its status said last."""

    about: Manifest
    job: str
    who: "Principal"
    told: Manifest = field(default_factory=dict)
    edited: bool = False


class JobController:
    """One thread that acts and one for each namespace that watches."""

    def __init__(
        self, api: ClusterApi, tenants: JobTenants, platform: "Platform", leader: LeaderLease | None = None
    ) -> None:
        self._api = api
        self._tenants = tenants
        self._leader = leader
        self._platform = platform
        self._news: queue.SimpleQueue[tuple[Manifest, bool]] = queue.SimpleQueue()
        self._followed: dict[str, _Followed] = {}
        """By the object's uid."""
        self._unserved: dict[str, Manifest] = {}
        """Objects by their uids for which something failed that may go well later."""
        self._watches = [
            ObjectWatch(api, _path(namespace), changed=lambda _, found, there: self._news.put((found, there)))
            for namespace in tenants.namespaces
        ]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="job objects")

    def is_known(self) -> bool:
        try:
            return any(self._api.find(_path(namespace)) is not None for namespace in self._tenants.namespaces)
        except PenstockError as error:
            _log.warning("PenstockJobs cannot be listed: %s", error)
            return False

    def start(self) -> None:
        for watch in self._watches:
            watch.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for watch in self._watches:
            watch.stop()
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
        uid = found["metadata"]["uid"]
        try:
            if self._leader is not None:
                self._leader.check()
            self._take(found, there)
            self._unserved.pop(uid, None)
        except PenstockError as error:
            self._unserved[uid] = found
            _log.warning("PenstockJob %s could not be served, trying again: %s", found["metadata"]["name"], error)

    def _take(self, found: Manifest, there: bool) -> None:
        about, status = found["metadata"], found.get("status") or {}
        is_new_spec = about.get("generation", 0) > status.get("observedGeneration", 0)
        if not there:
            self._followed.pop(about["uid"], None)
        elif "deletionTimestamp" in about:
            self._let_go(about, status)
        elif status.get("job"):
            self._keep_following(about, status, is_new_spec)
        elif status.get("state") != REFUSED or is_new_spec:
            self._submit(found)

    def _keep_following(self, about: Manifest, status: Manifest, is_new_spec: bool) -> None:
        known = self._followed.get(about["uid"])
        if status["state"] in OVER and not is_new_spec:
            return
        if known is None or known.edited is not is_new_spec:
            who = _principal(self._tenants.tenant_of(about))
            self._followed[about["uid"]] = _Followed(about, status["job"], who, status, edited=is_new_spec)
            self._follow_one(self._followed[about["uid"]])

    def _submit(self, found: Manifest) -> None:
        about = found["metadata"]
        if FINALIZER not in about.get("finalizers", ()):
            self._patch(about, {"metadata": {"finalizers": [*about.get("finalizers", ()), FINALIZER]}})
        try:
            who = _principal(self._tenants.tenant_of(about))
            made = self._platform.submit(_job_file(found), who, key=f"kubernetes-{about['uid']}")
        except PenstockError as error:
            refusal = refusal_of(str(error), about.get("generation", 0))
            self._tell_events(about, found.get("status") or {}, refusal)
            self._patch(about, {"status": refusal}, "/status")
            return
        first = _Followed(about, made.job.id, who, {"observedGeneration": about.get("generation", 0)})
        self._tell(first, made.job, observed=about.get("generation", 0))

    def _let_go(self, about: Manifest, status: Manifest) -> None:
        if FINALIZER not in about.get("finalizers", ()):
            return
        if job := status.get("job"):
            try:
                self._platform.cancel(job, _principal(self._tenants.tenant_of(about)))
            except (MissingError, PenstockError) as error:
                _log.info("job %s needs no cancelling: %s", job, error)
        left = [one for one in about["finalizers"] if one != FINALIZER]
        self._patch(about, {"metadata": {"finalizers": left}})
        self._followed.pop(about["uid"], None)

    def _follow(self) -> None:
        for one in list(self._followed.values()):
            try:
                self._follow_one(one)
            except PenstockError as error:
                _log.warning("the status of PenstockJob %s could not be written: %s", one.about["name"], error)

    def _follow_one(self, one: _Followed) -> None:
        try:
            detail = self._platform.job(one.job, one.who)
        except PenstockError:
            self._followed.pop(one.about["uid"], None)
            return
        if any(one.told.get(name) != value for name, value in status_of(detail, edited=one.edited).items()):
            self._tell(one, detail)

    def _tell(self, one: _Followed, detail: JobDetail, observed: int | None = None) -> None:
        status = status_of(detail, edited=one.edited)
        generation = {} if observed is None else {"observedGeneration": observed}
        self._patch(one.about, {"status": {**status, **generation}}, "/status")
        self._tell_events(one.about, one.told, status)
        if detail.state in OVER:
            self._followed.pop(one.about["uid"], None)
        else:
            self._followed[one.about["uid"]] = _Followed(one.about, one.job, one.who, status, one.edited)

    def _tell_events(self, about: Manifest, before: Manifest, after: Manifest) -> None:
        """Events are a courtesy: one that cannot be written is not missed."""
        with suppress(PenstockError):
            for event in events_of(about, before, after, datetime.now(UTC)):
                self._api.create(f"/api/v1/namespaces/{about['namespace']}/events", event)

    def _patch(self, about: Manifest, change: Manifest, part: str = "") -> None:
        try:
            self._api.patch(f"{_path(about['namespace'])}/{about['name']}{part}", change)
        except ClusterApiError as error:
            if error.status != 404:
                raise


def _path(namespace: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def _job_file(found: Manifest) -> Manifest:
    spec: Manifest = deepcopy(found.get("spec") or {})
    spec.setdefault("name", found["metadata"]["name"])
    environment = spec.setdefault("environment", {})
    if isinstance(environment, dict):
        environment.setdefault("working_dir", _WORKING_DIR)
    return spec


def _principal(tenant: str) -> "Principal":
    from penstock.control import Principal, Role

    return Principal(id="", name="kubernetes", role=Role.USER, tenant=tenant)
