"""The same platform from outside: typed calls over HTTP, and the same errors."""

import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter

from penstock.client.datadir import DataDir, default_data_dir
from penstock.client.transport import Answer, Transport
from penstock.client.trust import trusting_only
from penstock.core import InputError
from penstock.wire import (
    ArraySubmission,
    ArrayView,
    AuditPage,
    CheckpointList,
    CleanReport,
    DrainedJob,
    EvaluationList,
    EventPage,
    EventView,
    FileList,
    JobDetail,
    JobHotspotsView,
    JobMetricsView,
    JobPage,
    JobReport,
    LogPage,
    NodeView,
    OverviewView,
    PeriodReport,
    PolicyView,
    QuotaView,
    QuoteView,
    SecretView,
    StoryView,
    Submission,
    TenantAccountView,
    TerminalSize,
    TokenView,
    UnavailableError,
    VersionView,
    WhatIfReport,
    WhatIfRequest,
    error_from,
)

_V = TypeVar("_V", bound=BaseModel)
_NODES = TypeAdapter(list[NodeView])
_DRAINED_JOBS = TypeAdapter(list[DrainedJob])
_TOKENS = TypeAdapter(list[TokenView])
_SECRETS = TypeAdapter(list[SecretView])
_QUOTAS = TypeAdapter(list[QuotaView])
_TENANTS = TypeAdapter(list[TenantAccountView])
_LONGEST_STUDY_S = 330.0
"""A server gives up on a what-if study before that."""
_LONGEST_VERIFICATION_S = 6 * 3600.0
_RETRIES_S = (1.0, 2.0, 4.0)
"""A server that cannot answer now, because its database is locked or restarts, is asked again after these."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some output, and the cursor to resume after it."""

    text: str
    cursor: str


class Client:
    """One platform. Use it as a context manager, or close it."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0, trust: ssl.SSLContext | None = None) -> None:
        """``trust`` says which certificates are believed, if not those that this machine believes."""
        headers = {"Authorization": f"Bearer {token}"}
        self._transport = Transport(url, headers, timeout_s=timeout_s, trust=trust)
        self.url = url

    @classmethod
    def local(cls, data_dir: Path | None = None) -> "Client":
        """The server of a data directory on this machine; it must be running."""
        place = DataDir(data_dir or default_data_dir())
        address, token = place.address(), place.owner_token()
        if address is None or token is None or not place.is_served():
            raise UnavailableError(f"no server runs on {place.path}", "a running server", "Start one: penstock serve")
        trust = trusting_only(Path(address.certificate)) if address.certificate else None
        return cls(address.url, token, trust=trust)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def submit(self, spec: Mapping[str, Any], *, key: str | None = None) -> Submission:
        """Submit a job; with a key it may be sent again without becoming a second job."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._post(Submission, "/v1/jobs", json=dict(spec), headers=headers)

    def submit_array(self, spec: Mapping[str, Any], array: str, *, key: str | None = None) -> ArraySubmission:
        """Submit a job for each index of ``array``, such as "1..500"; all of them are taken in, or none."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._post(ArraySubmission, "/v1/arrays", json={"job": dict(spec), "array": array}, headers=headers)

    def quote(self, spec: Mapping[str, Any]) -> QuoteView:
        return self._post(QuoteView, "/v1/quote", json=dict(spec))

    def jobs(
        self,
        *,
        cursor: str | None = None,
        limit: int = 100,
        states: Sequence[str] = (),
        name: str | None = None,
        tenant: str | None = None,
        array: str | None = None,
        grouped: bool = False,
        evaluations: bool = True,
    ) -> JobPage:
        """Jobs, newest first; those of one ``array``, or ``grouped``, with one line for each array."""
        query = {"cursor": cursor, "limit": limit, "state": list(states), "name": name, "tenant": tenant}
        flags = {"grouped": "true" if grouped else None, "evaluations": None if evaluations else "false"}
        return self._get(JobPage, "/v1/jobs", **query, array=array, **flags)

    def array(self, array: str) -> ArrayView:
        """A job array, by its id or, as long as one of its jobs is not over, its name."""
        return self._get(ArrayView, _array(array))

    def cancel_array(self, array: str) -> ArrayView:
        """End every job of an array that is not over."""
        return self._post(ArrayView, _array(array, "cancel"))

    def pause_array(self, array: str, *, anyway: bool = False, at_checkpoint: bool = False) -> ArrayView:
        how = {"anyway": anyway, "at_checkpoint": at_checkpoint}
        return self._post(ArrayView, _array(array, "pause"), json=how)

    def resume_array(
        self, array: str, *, deadline: str | None = None, best_effort: bool = False, from_scratch: bool = False
    ) -> ArrayView:
        how = {"deadline": deadline, "best_effort": best_effort, "from_scratch": from_scratch}
        return self._post(ArrayView, _array(array, "resume"), json=how)

    def job(self, job_id: str) -> JobDetail:
        return self._get(JobDetail, _job(job_id))

    def cancel(self, job_id: str) -> JobDetail:
        return self._post(JobDetail, _job(job_id, "cancel"))

    def pause(self, job_id: str, *, anyway: bool = False, at_checkpoint: bool = False) -> JobDetail:
        """Take a job out of scheduling, at once or ``at_checkpoint``, when it has saved the next time.

        One that cannot resume is paused only ``anyway``, because it loses its work.
        """
        how = {"anyway": anyway, "at_checkpoint": at_checkpoint}
        return self._post(JobDetail, _job(job_id, "pause"), json=how)

    def resume(
        self, job_id: str, *, deadline: str | None = None, best_effort: bool = False, from_scratch: bool = False
    ) -> JobDetail:
        how = {"deadline": deadline, "best_effort": best_effort, "from_scratch": from_scratch}
        return self._post(JobDetail, _job(job_id, "resume"), json=how)

    def edit(
        self,
        job_id: str,
        *,
        deadline: str | None = None,
        then: Mapping[str, str] | None = None,
        best_effort: bool | None = None,
        devices: str | int | None = None,
        priority: int | None = None,
        name: str | None = None,
    ) -> JobDetail:
        """Change what a job asks for, whether it waits or runs; what is not given stays as it is.

        A deadline that cannot be promised is refused with the earliest that could be, and nothing is changed.
        """
        wanted = _given(
            deadline=deadline, then=then, best_effort=best_effort, devices=devices, priority=priority, name=name
        )
        return self._post(JobDetail, _job(job_id, "edit"), json=wanted)

    def why(self, job_id: str) -> StoryView:
        return self._get(StoryView, _job(job_id, "why"))

    def metrics(self, job_id: str, *names: str) -> JobMetricsView:
        """What a job's script logged, all or only ``names``: ``client.metrics(job)["loss"].values``."""
        return self._get(JobMetricsView, _job(job_id, "metrics"), metric=list(names))

    def evaluations(self, job_id: str) -> EvaluationList:
        """What evaluations of a job's checkpoints found, in the order of their steps."""
        return self._get(EvaluationList, _job(job_id, "evaluations"))

    def usage(self, job_id: str) -> JobMetricsView:
        """What a job used over time: ``client.usage(job)["cpu_percent"].values``; steps are whole seconds."""
        return self._get(JobMetricsView, _job(job_id, "usage"))

    def hotspots(self, job_id: str) -> JobHotspotsView:
        """Where the time of a job's steps goes: ``client.hotspots(job).profile.kernels_s``, worker by worker below."""
        return self._get(JobHotspotsView, _job(job_id, "hotspots"))

    def events(
        self,
        job_id: str | None = None,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        bookkeeping: bool = True,
        limit: int = 100,
    ) -> EventPage:
        """Return a page of the log by ascending number: its first entries, or the last ones with ``newest``."""
        flags = {"newest": "true" if newest else None, "bookkeeping": None if bookkeeping else "false"}
        path = "/v1/events" if job_id is None else _job(job_id, "events")
        return self._get(EventPage, path, after=after, before=before, limit=limit, **flags)

    def logs(
        self,
        job_id: str,
        *,
        cursor: str | None = None,
        worker: str | None = None,
        since: str | None = None,
        limit: int = 65536,
    ) -> LogPage:
        return self._get(LogPage, _job(job_id, "logs"), cursor=cursor, worker=worker, since=since, limit=limit)

    def follow_logs(
        self,
        job_id: str,
        *,
        cursor: str | None = None,
        worker: str | None = None,
        since: str | None = None,
        until_now: bool = False,
    ) -> Iterator[LogPiece]:
        """Output as it comes, until the job is over, or as far as it goes now; ``since``: how long ago, or when.

        Break off at any time and resume with the last cursor.
        """
        query = _given(cursor=cursor, worker=worker, since=since, follow="false" if until_now else None)
        for identity, kind, data in self._stream(_job(job_id, "logs", "stream"), query):
            if kind == "log":
                yield LogPiece(data["text"], identity)

    def execute(
        self,
        job_id: str,
        command: Sequence[str],
        show: Callable[[str], None],
        *,
        terminal: TerminalSize | None = None,
        opened: Callable[[str], None] = lambda _: None,
    ) -> int:
        """Run a command beside the workers of a job and show its output as it comes; returns its exit code.

        With a ``terminal``, ``opened`` is told the session that :meth:`type_keys` takes.
        """
        code = None
        wanted = {"command": list(command), "terminal": None if terminal is None else terminal.model_dump()}
        for _, kind, data in self._stream(_job(job_id, "exec"), {}, json=wanted):
            if kind == "session":
                opened(data["id"])
            elif kind == "output":
                show(data["text"])
            elif kind == "exit":
                code = int(data["code"])
        if code is None:
            raise UnavailableError("the server went away before the command ended", "a running server", "Try again")
        return code

    def type_keys(self, job_id: str, session: str, text: str = "", size: TerminalSize | None = None) -> None:
        """Keys for the terminal of a command, and the size of its window if that is another."""
        keys = {"text": text, "size": None if size is None else size.model_dump()}
        self._ask("POST", _job(job_id, "exec", _quoted(session), "keys"), json=keys)

    def follow_events(self, *, after: int | None = None) -> Iterator[EventView]:
        """The log as it grows."""
        for _, kind, data in self._stream("/v1/events/stream", _given(after=after)):
            if kind != "end":
                yield EventView.model_validate(data)

    def overview(self, *, jobs: int = 50, events: int = 8) -> OverviewView:
        """The platform at a glance, in one answer."""
        return self._get(OverviewView, "/v1/overview", jobs=jobs, events=events)

    def report(self, *, since: str = "7d", until: str | None = None, tenant: str | None = None) -> PeriodReport:
        """What a stretch of time amounted to; ``since`` is how long ago, or when it began."""
        return self._get(PeriodReport, "/v1/report", since=since, until=until, tenant=tenant)

    def whatif(self, wanted: WhatIfRequest) -> WhatIfReport:
        """The server's own past under other rules, beside itself replayed; takes minutes where the past is long."""
        document = wanted.model_dump(mode="json")
        return WhatIfReport.model_validate(self._ask("POST", "/v1/what-if", json=document, timeout_s=_LONGEST_STUDY_S))

    def job_report(self, job_id: str) -> JobReport:
        return self._get(JobReport, _job(job_id, "report"))

    def checkpoints(self, job_id: str, *, verify: bool = False) -> CheckpointList:
        """What a job can go on from, the newest first; with ``verify`` every checksum is computed."""
        limits = {"params": {"verify": "true"}, "timeout_s": _LONGEST_VERIFICATION_S} if verify else {}
        return CheckpointList.model_validate(self._ask("GET", _job(job_id, "checkpoints"), **limits))

    def files(self, job_id: str, path: str = "") -> FileList:
        """What lies in the directory that a job saves to, or below a path in it."""
        return FileList.model_validate(self._ask("GET", _job(job_id, "files"), params=_given(path=path or None)))

    def fetch_file(self, job_id: str, path: str, target: Path) -> int:
        """Copy a file of a job to ``target``, which is there when it is whole; returns its bytes."""
        draft, size = target.with_name(f".{target.name}.part"), 0
        with self._transport.download(_job(job_id, "files", "content"), params={"path": path}) as (status, pieces):
            _check(Answer(status, b"".join(pieces) if status >= 400 else b""))
            with draft.open("wb") as file:
                for piece in pieces:
                    size += file.write(piece)
        draft.replace(target)
        return size

    def clean(
        self, *, older: str | None = None, larger: str | None = None, keep_last: int = 0, dry_run: bool = False
    ) -> CleanReport:
        """Remove what jobs saved that are over: ended longer ago than ``older``, with more than ``larger`` in all."""
        wanted = {"older": older, "larger": larger, "keep_last": keep_last, "dry_run": dry_run}
        return self._post(CleanReport, "/v1/clean", json=wanted)

    def nodes(self) -> list[NodeView]:
        return _NODES.validate_python(self._ask("GET", "/v1/nodes"))

    def drained_jobs(self, node: str) -> list[DrainedJob]:
        """The jobs that draining a node would stop, with what each of them would lose; nothing is changed."""
        return _DRAINED_JOBS.validate_python(self._ask("GET", f"/v1/nodes/{_quoted(node)}/drain"))

    def drain(self, node: str, *, reason: str = "", now: bool = False, force: bool = False) -> list[NodeView]:
        """No more jobs there; the reason is shown with the node.

        Jobs that can resume save their state and leave it. The others end there first, unless they are to stop ``now``.
        A drain that endangers promises is rejected unless ``force`` is given.
        """
        wanted = {"reason": reason, "now": now, "force": force}
        return _NODES.validate_python(self._ask("POST", f"/v1/nodes/{_quoted(node)}/drain", json=wanted))

    def undrain(self, node: str) -> list[NodeView]:
        return _NODES.validate_python(self._ask("POST", f"/v1/nodes/{_quoted(node)}/undrain"))

    def tokens(self) -> list[TokenView]:
        return _TOKENS.validate_python(self._ask("GET", "/v1/tokens"))

    def make_token(
        self, *, name: str, tenant: str, role: str = "user", scope: Sequence[str] = (), expires: str | None = None
    ) -> TokenView:
        """A new token, with its secret; ``expires`` is after how long (30d), or when."""
        wanted = {"name": name, "tenant": tenant, "role": role, "scope": list(scope), "expires": expires}
        return self._post(TokenView, "/v1/tokens", json=wanted)

    def revoke_token(self, token_id: str) -> None:
        self._ask("DELETE", f"/v1/tokens/{_quoted(token_id)}")

    def secrets(self, *, tenant: str | None = None) -> list[SecretView]:
        """The names of stored secrets."""
        return _SECRETS.validate_python(self._ask("GET", "/v1/secrets", params=_given(tenant=tenant)))

    def set_secret(self, name: str, value: str, *, tenant: str | None = None) -> None:
        self._ask("PUT", f"/v1/secrets/{_quoted(name)}", json={"value": value}, params=_given(tenant=tenant))

    def delete_secret(self, name: str, *, tenant: str | None = None) -> None:
        self._ask("DELETE", f"/v1/secrets/{_quoted(name)}", params=_given(tenant=tenant))

    def audit(self, *, before: int | None = None, limit: int = 100, action: str | None = None) -> AuditPage:
        """Who did what, the newest first."""
        return self._get(AuditPage, "/v1/audit", before=before, limit=limit, action=action)

    def tenants(self) -> list[TenantAccountView]:
        """What tenants may have, hold and lend, and how fairly they fared."""
        return _TENANTS.validate_python(self._ask("GET", "/v1/tenants"))

    def set_tenant(self, tenant: str, **changes: float | str | bool | None) -> TenantAccountView:
        """Change a tenant's share, quota, limit, group, lending, borrowing, priority or max_priority."""
        return TenantAccountView.model_validate(self._ask("PUT", f"/v1/tenants/{_quoted(tenant)}", json=changes))

    def remove_tenant(self, tenant: str) -> None:
        self._ask("DELETE", f"/v1/tenants/{_quoted(tenant)}")

    def policy(self) -> PolicyView:
        """The policy in force."""
        return self._get(PolicyView, "/v1/policy")

    def switch_policy(self, policy: str, *, slot: str | None = None, force: bool = False) -> PolicyView:
        """Another policy from now on; with ``force`` even if that endangers promises."""
        wanted = {"policy": policy, "slot": slot, "force": force}
        return PolicyView.model_validate(self._ask("PUT", "/v1/policy", json=wanted))

    def quotas(self) -> list[QuotaView]:
        return _QUOTAS.validate_python(self._ask("GET", "/v1/quotas"))

    def set_quota(self, tenant: str, **limits: float | None) -> QuotaView:
        """``active_jobs``, ``devices`` and ``requests_per_s`` of a tenant; what is not given is not limited."""
        return QuotaView.model_validate(self._ask("PUT", f"/v1/quotas/{_quoted(tenant)}", json=limits))

    def sign_in_link(self) -> str:
        """An address that signs a browser in to the dashboard, once."""
        return f"{self.url}{self._ask('POST', '/v1/sign-in-links')['path']}"

    def version(self) -> VersionView:
        return self._get(VersionView, "/version")

    def ready(self) -> bool:
        try:
            return self._transport.request("GET", "/readyz").status == 200
        except UnavailableError:
            return False

    def _get(self, kind: type[_V], path: str, **query: Any) -> _V:
        return kind.model_validate(self._ask("GET", path, params=_given(**query)))

    def _post(self, kind: type[_V], path: str, **options: Any) -> _V:
        return kind.model_validate(self._ask("POST", path, **options))

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self._transport.request(method, path, **options)
        for wait_s in _RETRIES_S if _is_repeatable(method, options) else ():
            if answer.status != UnavailableError.status:
                break
            time.sleep(wait_s)
            answer = self._transport.request(method, path, **options)
        _check(answer)
        return answer.document()

    def _stream(self, path: str, query: dict[str, Any], json: Any = None) -> Iterator[tuple[str, str, Any]]:
        with self._transport.stream(path, params=query, json=json) as (status, lines):
            _check(Answer(status, b"".join(lines) if status >= 400 else b""))
            for message in _messages(lines):
                if message[1] == "error":
                    raise error_from(message[2])
                yield message


def _is_repeatable(method: str, options: Mapping[str, Any]) -> bool:
    """Whether asking twice is as good as asking once."""
    return method == "GET" or "Idempotency-Key" in options.get("headers", {})


def _check(answer: Answer) -> None:
    if not answer.is_error:
        return
    try:
        body = answer.document()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "message" not in body:
        body = {
            "message": f"what answers there ({answer.status}) is not a Penstock server",
            "allowed": "the address of a Penstock server", "hint": "Check PENSTOCK_SERVER and proxies on the way",
        }  # fmt: skip
    raise error_from(body)


def _messages(lines: Iterable[bytes]) -> Iterator[tuple[str, str, Any]]:
    """Server-sent events as (id, kind, data)."""
    fields: dict[str, str] = {}
    for each in lines:
        line = each.decode().rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield fields.get("id", ""), fields.get("event", "message"), json.loads(fields["data"])
            fields = {}


def _given(**query: Any) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value not in (None, [], ())}


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _job(job_id: str, *parts: str) -> str:
    return "/".join(["/v1/jobs", _quoted(_named(job_id, "job")), *parts])


def _array(array: str, *parts: str) -> str:
    return "/".join(["/v1/arrays", _quoted(_named(array, "array")), *parts])


def _named(name: str, what: str) -> str:
    """Return the name, unless it is empty: the path would be another one, and usually a shell variable is not set."""
    if not name.strip():
        raise InputError(f"{name!r} names no {what}", f"the id or name of a {what}", "Is a shell variable unset?")
    return name
