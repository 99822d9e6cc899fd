"""Requests to a cluster's API server, with the credentials that ``kubectl`` or a pod would use.

The ``kubernetes`` package finds and renews credentials (contexts, certificates, tokens, login helpers, the account of a
pod). Objects stay the JSON they are: thousands of pods as instances of a client's classes would cost ten times the
memory, and fields that a newer cluster has would be lost.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from penstock.backends.base import BackendError
from penstock.core import InputError, require

Manifest = dict[str, Any]

TIMEOUT_S = 30.0
PAGE = 500
MERGE_PATCH = "application/merge-patch+json"
GONE = 410


class ClusterApiError(BackendError):
    """The API server refused; ``status`` is its HTTP code and the message its own words."""

    def __init__(self, status: int, words: str, asked: str) -> None:
        super().__init__(f"the cluster answered {status} to {asked}: {words}")
        self.status = status
        self.words = words


class UnreachableClusterError(BackendError):
    """There is no answer; asked again, there may be."""


class ClusterApi:
    """One cluster: that of a kubeconfig's context, or the one this process is a pod of."""

    def __init__(self, *, context: str = "", kubeconfig: str = "") -> None:
        client = require("kubernetes.client", extra="kubernetes", why="the backend for Kubernetes")
        self._configuration = _credentials(client.Configuration(), context, kubeconfig)
        self._client = client.ApiClient(self._configuration)
        self._pool = self._client.rest_client.pool_manager
        self.host: str = self._configuration.host.rstrip("/")

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Manifest:
        return self._asked("GET", path, query=query)

    def find(self, path: str) -> Manifest | None:
        """The object, or nothing where there is none."""
        try:
            return self.get(path)
        except ClusterApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, manifest: Manifest) -> Manifest:
        return self._asked("POST", path, manifest)

    def patch(self, path: str, change: Manifest) -> Manifest:
        return self._asked("PATCH", path, change, kind=MERGE_PATCH)

    def apply(self, path: str, manifest: Manifest, manager: str = "penstock") -> Manifest:
        """Create the object or make it what the manifest says, as ``kubectl apply --server-side`` does."""
        query = {"fieldManager": manager, "force": "true"}
        return self._asked("PATCH", path, manifest, query, "application/apply-patch+yaml")

    def delete(self, path: str, grace_s: float | None = None) -> None:
        """Have an object deleted; one that is gone is deleted."""
        options: Manifest = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = math.ceil(grace_s)
        try:
            self._asked("DELETE", path, options)
        except ClusterApiError as error:
            if error.status not in (404, 409):
                raise

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Manifest]:
        """A whole list, page by page; the last page's ``metadata.resourceVersion`` is that of all."""
        more: str | None = ""
        while more is not None:
            page = self.get(path, {**query, "limit": str(PAGE), **({"continue": more} if more else {})})
            yield page
            more = page["metadata"].get("continue") or None

    def watch(self, path: str, query: Mapping[str, str], timeout_s: int) -> Iterator[Manifest]:
        """Events until the server ends the stream, which it does after ``timeout_s`` at the latest."""
        asked = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
        answer = self._request("GET", path, query=asked, timeout_s=timeout_s + TIMEOUT_S)
        with closing(answer):
            if answer.status >= 400:
                raise _refusal(answer, f"watch {path}")
            yield from _lines(answer)

    def close(self) -> None:
        self._pool.clear()

    def _asked(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> Manifest:
        answer = self._request(verb, path, body, query, kind)
        with closing(answer):
            if answer.status >= 400:
                raise _refusal(answer, f"{verb} {path}")
            found: Manifest = json.loads(self._read(answer))
            return found

    def _request(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        url = f"{self.host}{quote(path)}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": kind, "User-Agent": "penstock"}
        bearer = self._configuration.auth_settings().get("BearerToken")
        if bearer and bearer["value"]:
            headers["Authorization"] = bearer["value"]
        try:
            return self._pool.request(
                verb, url, body=json.dumps(body).encode() if body is not None else None, headers=headers,
                preload_content=False, timeout=timeout_s, retries=False, redirect=False,
            )  # fmt: skip
        except _broken() as error:
            raise UnreachableClusterError(f"the cluster at {self.host} does not answer: {error}") from error

    def _read(self, answer: Any) -> bytes:
        try:
            read: bytes = answer.read()
            return read
        except _broken() as error:
            raise UnreachableClusterError(f"the cluster at {self.host} hung up: {error}") from error


def _credentials(configuration: Any, context: str, kubeconfig: str) -> Any:
    config = require("kubernetes.config", extra="kubernetes", why="the backend for Kubernetes")
    try:
        if context or kubeconfig:
            config.load_kube_config(kubeconfig or None, context or None, client_configuration=configuration)
        else:
            config.load_config(client_configuration=configuration)
    except config.ConfigException as problem:
        raise InputError(
            f"no access to a Kubernetes cluster: {problem}", "a kubeconfig with that context, or an account of a pod",
            "Check `kubectl config get-contexts`, $KUBECONFIG and --context",
        ) from None  # fmt: skip
    return configuration


def _refusal(answer: Any, asked: str) -> ClusterApiError:
    text = answer.read()[:10_000].decode(errors="replace")
    try:
        words = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        words = text.strip()[:400]
    return ClusterApiError(int(answer.status), words, asked)


def _lines(answer: Any) -> Iterator[Manifest]:
    rest = b""
    try:
        for chunk in answer.stream(65536, decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
    except _broken() as error:
        raise UnreachableClusterError(f"a watch was cut off: {error}") from error


def _broken() -> tuple[type[BaseException], ...]:
    import urllib3

    return (urllib3.exceptions.HTTPError, OSError)
