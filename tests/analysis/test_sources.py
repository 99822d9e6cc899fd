"""Where an analysis gets its jobs from: logs of other clusters, and a platform's own past."""

from pathlib import Path

import pytest

from penstock.control import observe_database
from penstock.simulate import Ending, analyze, observe_trace, read_trace
from tests.whatif.build import LivedThrough

ACME = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
dlc1,u1,1,8,96,Pretrain,FAILED,2023-05-17 11:00:58,2023-05-17 11:01:08,2023-05-17 11:11:08,600,10,4800
dlc2,u2,0,0,2,Other,COMPLETED,2023-05-17 11:00:58,2023-05-17 11:01:08,2023-05-17 11:11:08,600,10,0
dlc3,u2,1,1,12,Evaluation,CANCELLED,2023-05-17 11:05:58,2023-05-17 11:05:58,2023-05-17 11:06:58,60,0,60
"""
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,vc1,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:31,2020-06-10 04:55:09,36848,30
2,u,vc1,1,1,1,TIMEOUT,2020-06-09 18:41:02,2020-06-09 18:41:02,2020-06-10 04:55:09,100,0
"""
SWF = """\
; MaxProcs: 128
  1   10    5   100  8  -1  -1  16   200  -1  1   3   1  -1  1  -1  -1  -1
  2   20   -1   100  8  -1  -1  16   200  -1  5   3   1  -1  1  -1  -1  -1
"""
ALIBABA = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,8000,30,1,1000,,LS,Failed,0,100,40
"""
PLAIN = """\
id,submitted,duration,devices,waited,ending,type
a,0,100,2,30s,failed,train
b,5,100,1,,,debug
"""


@pytest.mark.parametrize(
    ("text", "waited", "endings", "types"),
    [
        (ACME, [10.0, 0.0], [Ending.FAILED, Ending.CANCELLED], ["Pretrain", "Evaluation"]),
        (HELIOS, [30.0, 0.0], [Ending.COMPLETED, Ending.FAILED], ["", ""]),
        (SWF, [5.0, None], [Ending.COMPLETED, Ending.CANCELLED], ["", ""]),
        (ALIBABA, [40.0], [Ending.FAILED], [""]),
        (PLAIN, [30.0, None], [Ending.FAILED, Ending.UNKNOWN], ["train", "debug"]),
    ],
    ids=["acme", "helios", "swf", "alibaba", "plain"],
)
def test_logs_tell_who_waited_and_how_it_ended(
    text: str, waited: list[float | None], endings: list[Ending], types: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "log.csv"
    file.write_text(text)
    seen = observe_trace(read_trace(file))
    assert [each.waited_s for each in seen.jobs] == waited
    assert [each.ending for each in seen.jobs] == endings
    assert [each.type for each in seen.jobs] == types


def test_an_ending_that_nobody_knows_is_refused_in_our_own_format(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("id,submitted,duration,ending\na,0,1,exploded\n")
    with pytest.raises(Exception, match="one of completed, cancelled, failed"):
        read_trace(file)


def test_a_platform_is_analyzed_from_its_own_database(tmp_path: Path) -> None:
    lived = LivedThrough(tmp_path)
    seen = observe_database(lived.url, 0.0, lived.now)
    found = analyze(seen)
    assert len(seen.jobs) == 30
    assert {each.ending for each in seen.jobs} >= {Ending.COMPLETED}
    assert all(each.waited_s is not None and each.waited_s >= 0 for each in seen.jobs if each.holds)
    assert not any(section.unknown for section in found.sections)
