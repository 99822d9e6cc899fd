"""A copy of a cluster's objects stays right through watches that end, are forgotten, or break with the API server."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.backends.kubernetes.cluster_api import ClusterApiError, UnreachableClusterError
from penstock.backends.kubernetes.object_watch import ObjectWatch
from penstock.backends.testing import until


def thing(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class ScriptedApi:
    """Answers as it was told: lists, and streams that end with their events or with an error."""

    def __init__(self, lists: list[list[dict[str, Any]]], streams: list[list[Any]]) -> None:
        self._lists = lists
        self._streams = streams
        self.asked_from: list[str] = []
        self.over = threading.Event()

    def pages(self, _path: str, _query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        items = self._lists.pop(0)
        yield {"items": items[:1], "metadata": {"resourceVersion": "9"}}
        yield {"items": items[1:], "metadata": {"resourceVersion": "9"}}

    def watch(self, _path: str, query: Mapping[str, str], _timeout_s: int) -> Iterator[dict[str, Any]]:
        self.asked_from.append(query["resourceVersion"])
        if not self._streams:
            self.over.wait(60)
            return
        for event in self._streams.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


def watched(api: ScriptedApi) -> tuple[ObjectWatch, list[tuple[str, bool]]]:
    seen: list[tuple[str, bool]] = []
    watch = ObjectWatch(api, "/things", changed=lambda name, _, there: seen.append((name, there)))  # type: ignore[arg-type]
    watch.start()
    return watch, seen


def test_a_stream_that_ends_goes_on_where_it_was() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "15"}}}
    streams = [[{"type": "ADDED", "object": thing("c", 12)}, bookmark], [{"type": "DELETED", "object": thing("a", 16)}]]
    api = ScriptedApi([[thing("a"), thing("b")]], streams)
    watch, seen = watched(api)
    until(lambda: len(api.asked_from) == 3, "the third stream")
    assert api.asked_from == ["9", "15", "16"]
    assert seen == [("a", True), ("b", True), ("c", True), ("a", False)]
    assert sorted(watch.objects()) == ["b", "c"]
    watch.stop()
    api.over.set()


def test_what_has_gone_while_nobody_watched_is_told_after_the_next_list() -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
    lists = [[thing("a"), thing("b")], [thing("b"), thing("c")], [thing("c")]]
    api = ScriptedApi(lists, [[gone], [ClusterApiError(410, "expired", "watch")]])
    watch, seen = watched(api)
    until(lambda: len(api.asked_from) == 3, "the third stream")
    assert seen == [("a", True), ("b", True), ("a", False), ("c", True), ("b", False)]
    assert sorted(watch.objects()) == ["c"]
    watch.stop()
    api.over.set()


def test_an_api_server_that_was_away_is_asked_again_from_the_same_place() -> None:
    streams = [[UnreachableClusterError("no answer")], [{"type": "ADDED", "object": thing("b", 11)}]]
    api = ScriptedApi([[thing("a")]], streams)
    watch, seen = watched(api)
    until(lambda: len(api.asked_from) == 3, "the third stream")
    assert api.asked_from == ["9", "9", "11"]
    assert seen == [("a", True), ("b", True)]
    watch.stop()
    api.over.set()
