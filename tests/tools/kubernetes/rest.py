"""The few requests that the tests' own kubelet and assertions make, apart from the client under test."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import requests

Manifest = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Rest:
    """One API server, one token. Each thread has a session of its own. An API server that does not answer is asked
    again for ``patience_s``."""

    def __init__(self, url: str, token: str, authority: str, patience_s: float = 0.0) -> None:
        self._url = url
        self._patience_s = patience_s
        self._token = token
        self._authority = authority
        self._local = threading.local()

    def get(self, path: str, **query: str) -> Manifest:
        return self._asked("GET", path, query=query)

    def find(self, path: str) -> Manifest | None:
        answer = self._request("GET", path)
        return None if answer.status_code == 404 else self._checked(answer, path)

    def post(self, path: str, body: Manifest) -> Manifest:
        return self._asked("POST", path, body)

    def put(self, path: str, body: Manifest) -> Manifest:
        return self._asked("PUT", path, body)

    def patch(self, path: str, body: Manifest, kind: str = MERGE) -> Manifest | None:
        """The object as it is now, or nothing if it is gone."""
        answer = self._request("PATCH", path, body, kind)
        return None if answer.status_code == 404 else self._checked(answer, path)

    def delete(self, path: str, **options: Any) -> None:
        answer = self._request("DELETE", path, options or None)
        if answer.status_code not in (404, 409):
            self._checked(answer, path)

    def text(self, path: str) -> str:
        answer = self._request("GET", path)
        assert answer.ok, answer.text
        return answer.text

    def is_ready(self) -> bool:
        try:
            return bool(self._request("GET", "/readyz").ok)
        except requests.ConnectionError:
            return False

    def watch(self, path: str, version: str, timeout_s: int = 60) -> Iterator[Manifest]:
        """Events after ``version`` until the server ends the stream."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(timeout_s)}
        with self._session().get(
            self._url + path, params=query, stream=True, timeout=(10, timeout_s + 10), verify=self._authority
        ) as answer:
            for line in answer.iter_lines(chunk_size=None):
                if line:
                    yield json.loads(line)

    def _asked(
        self, verb: str, path: str, body: Manifest | None = None, query: dict[str, str] | None = None
    ) -> Manifest:
        return self._checked(self._request(verb, path, body, "application/json", query), path)

    def _request(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> requests.Response:
        data = json.dumps(body) if body is not None else None
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answer = self._session().request(
                    verb, self._url + path, data=data, params=query, headers={"Content-Type": kind}, timeout=30,
                    verify=self._authority,
                )  # fmt: skip
            except requests.RequestException:
                if time.monotonic() > deadline:
                    raise
            else:
                if answer.status_code < 500 or time.monotonic() > deadline:
                    return answer
            time.sleep(0.2)

    @staticmethod
    def _checked(answer: requests.Response, path: str) -> Manifest:
        assert answer.ok, f"{path}: {answer.status_code} {answer.text[:500]}"
        found: Manifest = answer.json()
        return found

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.trust_env = False
            self._local.session.headers["Authorization"] = f"Bearer {self._token}"
        session: requests.Session = self._local.session
        return session
