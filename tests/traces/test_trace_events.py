"""Events files: what they may say, where a wrong cell stands, and what their rows are to the scheduler."""

import gzip
import math
from pathlib import Path
from typing import Any

import pytest

from penstock.core import (
    Amendment,
    BestEffort,
    Cluster,
    Deadline,
    Event,
    InputError,
    JobAmended,
    JobCancelled,
    JobPaused,
    JobResumed,
    Node,
    NodeDraining,
    NodeJoined,
    NodeLost,
    TraceError,
    UnknownNameError,
)
from penstock.simulate.traces import EVENTS, TraceJob, read_events

CLUSTER = Cluster.parse("2x4")
JOBS = [TraceJob(id="a", submitted_at=100.0, duration_s=10.0), TraceJob(id="b", submitted_at=200.0, duration_s=10.0)]
HEADER = "at,event,node,devices,until,job,deadline,priority,at_least,at_most\n"


def written(tmp_path: Path, text: str, name: str = "events.csv") -> Path:
    (path := tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def bound(tmp_path: Path, text: str, **changes: Any) -> list[Event]:
    return read_events(written(tmp_path, text, **changes)).bind(CLUSTER, JOBS)


def test_rows_become_events_in_order_of_time(tmp_path: Path) -> None:
    text = (
        "at,event,node,devices,kind,until,job,deadline,priority,at_least,at_most\n"
        "1h,join,extra,8,,2h,,,,,\n"
        "+5m,pause,,,,,b,,,,\n"
        "+10m,resume,,,,,b,+2h,,,\n"
        "300,edit,,,,,a,none,5,2,4\n"
        "400,cancel,,,,,a,,,,\n"
        "50,drain,node-1,,,+100,,,,,\n"
    )
    assert bound(tmp_path, text) == [
        NodeDraining(50.0, "node-1", 150.0),
        NodeLost(150.0, "node-1"),
        JobAmended(300.0, "a", Amendment(goal=BestEffort(), priority=5, at_least=2, at_most=4)),
        JobCancelled(400.0, "a"),
        JobPaused(500.0, "b"),
        JobResumed(800.0, "b", Deadline(8000.0)),
        NodeJoined(3600.0, Node(name="extra", device_count=8), 7200.0),
        NodeLost(7200.0, "extra"),
    ]


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    lines = '{"at": 0, "event": "lease", "node": "node-0", "until": "6h"}\n{"at": "+0", "event": "cancel", "job": "b"}'
    assert bound(tmp_path, lines, name="e.jsonl.gz") == [
        NodeJoined(0.0, CLUSTER.nodes[0], 21600.0), JobCancelled(200.0, "b"), NodeLost(21600.0, "node-0"),
    ]  # fmt: skip


def test_a_later_word_about_a_node_takes_the_place_of_its_end(tmp_path: Path) -> None:
    longer = HEADER + "0,lease,node-0,,1h,,,,,\n1800,lease,node-0,,3h,,,,,\n"
    assert [event.at for event in bound(tmp_path, longer) if isinstance(event, NodeLost)] == [10800.0]
    kept = HEADER + "0,drain,node-0,,1h,,,,,\n1800,drain,node-0,,never,,,,,\n"
    assert bound(tmp_path, kept)[-1] == NodeDraining(1800.0, "node-0", math.inf)
    at_once = HEADER + "10,drain,node-0,,,,,,,\n20,join,node-0,,,,,,,\n"
    assert [type(event) for event in bound(tmp_path, at_once)] == [NodeDraining, NodeLost, NodeJoined]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,explode,node-0,,,,,,,", r"line 2, column 'event': 'explode'.*Allowed: cancel.*worker-failed"),
        ("soon,lost,node-0,,,,,,,", r"line 2, column 'at': 'soon'"),
        ("-5,lost,node-0,,,,,,,", r"line 2, column 'at': '-5'"),
        ("0,lost,,,,,,,,", r"line 2: lost without node"),
        ("0,lost,node-0,,,a,,,,", r"line 2, column 'job': 'a'.*lost takes node.*Empty the cell"),
        ("0,lost,nod-0,,,,,,,", r"line 2, column 'node': 'nod-0'.*Did you mean 'node-0'\?"),
        ("0,join,new,,,,,,,", r"line 2, column 'devices'.*the number of devices of the new node 'new'"),
        ("0,join,new,0,,,,,,", r"column 'devices': '0'"),
        ("0,join,new,99999,,,,,,", r"column 'devices': '99999'. Allowed: 1 to 10000"),
        ("0,join,node-0,8,,,,,,", r"what node 'node-0' has: 4 devices"),
        ("100,lease,node-0,,50,,,,,", r"column 'until': '50'. Allowed: a time after 100 s"),
        ("0,lease,node-0,,,,,,,", r"lease without until"),
        ("300,cancel,,,,c,,,,", r"column 'job': 'c'. Allowed: the id of a job of the trace"),
        ("150,cancel,,,,b,,,,", r"column 'at': '150'. Allowed: a time from the submission of 'b' at 200 s on"),
        ("300,resume,,,,b,200,,,", r"column 'deadline': '200'. Allowed: a time after 300 s"),
        ("300,edit,,,,b,,,,", r"an edit that changes something"),
        ("300,edit,,,,b,,,,4", r"column 'at_most': '4'. Allowed: an upper bound beside a lower one"),
        ("300,edit,,,,b,,,4,2", r"column 'at_most': '2'. Allowed: at least 4"),
        ("300,edit,,,,b,,0.5,,", r"column 'priority': '0.5'. Allowed: a whole number"),
        (f"300,cancel,,,,{'b' * 201},,,,", r"column 'job': 201 characters. Allowed: at most 200"),
        ("0,lost,node-0", r"line 2: 3 cells"),
        (f"0,lost,{'n' * 9000},,,,,,,", r"line 2: 9,\d+ characters"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        bound(tmp_path, HEADER + row + "\n")


def test_unknown_columns_and_formats(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'node'"):
        bound(tmp_path, "at,event,nodes\n0,lost,a\n")
    with pytest.raises(TraceError, match="a header with 'event'"):
        bound(tmp_path, "at,node\n0,a\n")
    with pytest.raises(UnknownNameError, match="Did you mean 'until'"):
        bound(tmp_path, '{"at": 0, "event": "lease", "node": "node-0", "untill": 5}\n', name="e.jsonl")
    with pytest.raises(InputError, match="not JSON"):
        bound(tmp_path, '{"at": 0, "event"\n', name="e.jsonl")
    with pytest.raises(InputError, match="is empty"):
        bound(tmp_path, "")


def test_as_many_events_as_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.simulate.traces.events.MOST_EVENTS", 3)
    assert len(bound(tmp_path, HEADER + 3 * "0,lost,node-0,,,,,,,\n")) == 3
    with pytest.raises(TraceError, match="more than 3 events"):
        bound(tmp_path, HEADER + 4 * "0,lost,node-0,,,,,,,\n")


def test_the_documented_events_are_those_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trace-formats.md").read_text(encoding="utf-8")
    section = page.split("## Events files")[1].split("\n## ")[0]
    assert all(f"| `{event}` |" in section for event in EVENTS)
