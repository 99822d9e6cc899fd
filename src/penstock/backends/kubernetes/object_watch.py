"""A copy of one kind of objects of a cluster, kept up to date by list and watch, never by polling.

The copy begins with a list and follows a watch from there. A watch that ends goes on where it was; one whose place is
forgotten (410 Gone) begins again with a list, as does everything after the API server was away: what has gone meanwhile
is then told as gone. Only what ``trim`` leaves of an object is kept.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.backends.base import BackendError
from penstock.backends.kubernetes.cluster_api import GONE, ClusterApi, ClusterApiError, Manifest

_log = logging.getLogger(__name__)

STREAM_S = 240
"""How long one watch lasts before it is asked for again."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0

Changed = Callable[[str, Manifest, bool], None]
"""Told the name (``namespace/name``), the object as it is or was last, and whether it is still there."""


class ObjectWatch:
    """One thread. ``changed`` is called in it, for every object of a list and every later change.

    With ``begins_cached`` the first list is what the API server remembers, perhaps a moment old: what changed since is
    told by the watch. It spares a server with thousands of objects the reading of all of them for a selector of few.
    """

    def __init__(
        self,
        api: ClusterApi,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        trim: Callable[[Manifest], Manifest] = lambda found: found,
        changed: Changed | None = None,
        begins_cached: bool = False,
    ) -> None:
        self._api = api
        self._path = path
        self._query = dict(query or {})
        self._trim = trim
        self._changed = changed
        self._begins_cached = begins_cached
        self._objects: dict[str, Manifest] = {}
        self._version = ""
        self._stopped = threading.Event()
        self._listed = threading.Event()
        self.failure = ""
        self.revision = 0
        """Grows with every change."""
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"watch {path}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell nothing more; the thread ends when its stream does."""
        self._stopped.set()

    def wait_for_list(self, timeout_s: float) -> bool:
        """Whether the first list came within that time."""
        return self._listed.wait(timeout_s)

    def objects(self) -> dict[str, Manifest]:
        return dict(self._objects)

    def _run(self) -> None:
        pause_s = _SHORTEST_PAUSE_S
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
                pause_s = _SHORTEST_PAUSE_S
            except (BackendError, ValueError) as error:
                if isinstance(error, ClusterApiError) and error.status == GONE:
                    self._version = ""
                    continue
                self._complain(error)
                self._stopped.wait(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    def _complain(self, error: Exception) -> None:
        if str(error) != self.failure:
            self.failure = str(error)
            _log.warning("%s; trying again", error)

    def _list(self) -> None:
        found: dict[str, Manifest] = {}
        version = ""
        for page in self._pages():
            found |= {_name(one): self._trim(one) for one in page["items"]}
            version = page["metadata"]["resourceVersion"]
        for name in self._objects.keys() - found.keys():
            self._drop(name, self._objects[name])
        for name, one in found.items():
            self._take(name, one)
        self._version = version
        self.failure = ""
        self._listed.set()

    def _pages(self) -> Iterator[Manifest]:
        if self._begins_cached and not self._listed.is_set():
            yield self._api.get(self._path, {**self._query, "resourceVersion": "0"})
        else:
            yield from self._api.pages(self._path, self._query)

    def _follow(self) -> None:
        for event in self._api.watch(self._path, {**self._query, "resourceVersion": self._version}, STREAM_S):
            if self._stopped.is_set():
                return
            about = event["object"]
            if event["type"] == "ERROR":
                raise ClusterApiError(int(about.get("code") or 500), str(about.get("message")), f"watch {self._path}")
            self._version = about["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self._drop(_name(about), self._trim(about))
            elif event["type"] != "BOOKMARK":
                self._take(_name(about), self._trim(about))

    def _take(self, name: str, found: Manifest) -> None:
        if self._objects.get(name) != found:
            self._objects[name] = found
            self._tell(name, found, there=True)

    def _drop(self, name: str, last: Manifest) -> None:
        self._objects.pop(name, None)
        self._tell(name, last, there=False)

    def _tell(self, name: str, found: Manifest, *, there: bool) -> None:
        self.revision += 1
        if self._changed is not None:
            self._changed(name, found, there)


def _name(found: Mapping[str, Any]) -> str:
    about = found["metadata"]
    return f"{about['namespace']}/{about['name']}" if "namespace" in about else str(about["name"])
