"""The traces of Gavel, Sia, Chronus, Astraea and Helios, and the Standard Workload Format: read, filled in, refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import ANY_KIND, Cluster, Deadline, InputError, Strictness, TraceError, UnknownNameError, ValueStep
from penstock.simulate import Setting, Workload, run_policy
from penstock.simulate.traces import Ending, Profiles, TraceJob, describe, jobs_of, read_trace, to_job, write_trace

WriteFile = Callable[[str, str], Path]
Public = Callable[[str], Path]

CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort,job_type\n"
)
ASTRAEA = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time\n"
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
SIA = "name,time,application,num_replicas,batch_size\n"


def gavel(*cells: object) -> str:
    return "\t".join(map(str, cells)) + "\n"


GAVEL = gavel("ResNet-18 (batch size 128)", "python3 main.py", "cifar10", "--num_steps", 1, 1000, 4, 1, "-1.000000", 7)
SWF = "; Version: 2.2\n; MaxProcs: 128\n\n"


def swf(*numbers: int) -> str:
    return "  " + " ".join(map(str, numbers)) + "\n"


def test_gavel_in_ten_columns(write: WriteFile) -> None:
    trace = read_trace(write("small.trace", GAVEL + gavel("A3C", "c", "d", "-n", 0, 50, 1, 1, -1, 0)))
    assert (trace.name, trace.format) == ("small", "gavel")
    assert trace.jobs == (
        TraceJob(id="gavel-1", submitted_at=0, devices=1, iterations=50, model="A3C", batch=1, rigid=True),
        TraceJob(id="gavel-0", submitted_at=7, devices=4, iterations=1000, model="ResNet-18", batch=128, rigid=True),
    )


def test_gavel_in_seven_columns(write: WriteFile) -> None:
    (job,) = read_trace(write("m.trace", gavel("LM (batch size 80)", "run", "--steps", 1, 27788, "6.000000", 8)))
    assert (job.submitted_at, job.devices, job.iterations, job.model, job.batch) == (6, 8, 27788, "LM", 80)


@pytest.mark.parametrize(
    ("line", "column", "allowed"),
    [
        (gavel("LM (batch size 5)", "c", "d", "-n", 1, "many", 1, 1, -1, 0), "total_steps", "a number"),
        (gavel("LM (batch size 5)", "c", "d", "-n", 1, 5, 0, 1, -1, 0), "scale_factor", "a whole number, 1 or more"),
        (gavel("LM (batch size 5)", "c", "d", "-n", 1, 5, 1, 1, 1.2, 0), "SLO", "-1, no SLO"),
        (gavel("LM (batch size 5)", "c", "d", "-n", 1, 5, 1, 1, -1, -3), "arrival_time", "zero or more seconds"),
        (gavel("", "c", "d", "-n", 1, 5, 1, 1, -1, 0), "job_type", "a name"),
    ],
)
def test_gavel_bad_cells(write: WriteFile, line: str, column: str, allowed: str) -> None:
    with pytest.raises(TraceError, match=rf"bad\.trace, line 2, column '{column}'.*Allowed: .*{allowed}"):
        read_trace(write("bad.trace", GAVEL + line))


def test_gavel_lines_have_one_layout(write: WriteFile) -> None:
    with pytest.raises(TraceError, match=r"line 2: 7 cells\. Allowed: 10 cells"):
        read_trace(write("bad.trace", GAVEL + gavel("LM (batch size 5)", "c", "-n", 1, 5, 0, 1)))


def throughputs(path: Path) -> Path:
    def alone(**rates: float) -> dict[str, object]:
        return {
            f"('ResNet-18 (batch size 128)', {n[1:]})": {"null": rate, "('x', 1)": [1, 1]} for n, rate in rates.items()
        }

    tables = {
        "k80": alone(n1=1.0, n4=2.0), "v100": alone(n1=10.0, n2=19.0, n4=36.0),
        "v100_unconsolidated": alone(n1=10.0, n2=15.0, n4=20.0),
    }  # fmt: skip
    path.write_bytes(gzip.compress(json.dumps(tables).encode()))
    return path


def test_gavel_throughputs_become_a_curve_per_kind(tmp_path: Path) -> None:
    profiles = Profiles.load(throughputs(tmp_path / "t.json.gz"))
    curve = profiles.curve("ResNet-18", 128)
    assert curve.kinds == ("V100", "K80"), "the fastest first"
    assert (curve.rate(4, "V100"), curve.rate(4, "K80"), curve.rate(4, "T4")) == (36.0, 2.0, 0.0)
    assert (curve.rate(4, "V100", nodes=1), curve.rate(4, "V100", nodes=2), curve.rate(2, "V100", nodes=2)) == (
        36,
        20,
        15,
    )


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"v100": {"ResNet": {"null": 1}}}', '{"v100": {"(\'a\', 1)": {"null": "x"}}}', "{"]
)
def test_gavel_throughputs_of_another_form_are_refused(write: WriteFile, text: str) -> None:
    with pytest.raises(TraceError, match=r"t\.json.*Allowed"):
        Profiles.load(write("t.json", text))


def test_a_gavel_job_runs_on_its_workers_on_any_kind(write: WriteFile, tmp_path: Path) -> None:
    profiles = Profiles.load(throughputs(tmp_path / "t.json.gz"))
    (job,) = jobs_of(read_trace(write("g.trace", GAVEL)), profiles)
    assert (job.at_least, job.at_most, job.requested, job.work.iterations) == (4, 4, 4, 1000)
    workload = Workload(trace=read_trace(write("g.trace", GAVEL)), profiles=profiles)
    with pytest.raises(InputError, match=r"has gpu, of which t knows nothing. Allowed: K80, V100"):
        run_policy("fifo", workload, Setting(cluster=Cluster.parse("2x4")))
    result = run_policy("fifo", workload, Setting(cluster=Cluster.parse("1x4xK80+1x4xV100")))
    assert result.outcomes[0].completion_s == pytest.approx(1000 / 36)


def test_gavel_without_its_throughputs_says_what_to_give(write: WriteFile) -> None:
    with pytest.raises(UnknownNameError, match="ResNet-18"):
        list(jobs_of(read_trace(write("g.trace", GAVEL)), Profiles.builtin()))


def test_chronus_counts_minutes(write: WriteFile) -> None:
    rows = (
        "0,vc_a,4,10,6910,resnet101,211,8,282,10,0,strict\n"
        "1,vc_b,1,5,5530,mobilenet_v2,96,5,159-189-229-289,10-8-5-2,0,soft\n"
        "2,vc_b,2,20,760,alexnet,106,6,235,10,1,best\n"
        "3,vc_b,0,20,760,alexnet,106,6,235,10,0,strict\n"
    )
    trace = read_trace(write("c.csv", CHRONUS + rows))
    soft, strict, best = trace.jobs
    assert trace.format == "chronus"
    assert dict(trace.skipped) == {"no GPU": 1}
    assert strict == TraceJob(
        id="0", submitted_at=600, devices=4, duration_s=211 * 60, model="resnet101", deadline=600 + 282 * 60,
        tenant="vc_a", rigid=True,
    )  # fmt: skip
    assert (soft.deadline, soft.soft) == (300 + 159 * 60, True)
    assert best.deadline is None
    job = to_job(soft, Profiles.builtin())
    later = ((189, 0.8), (229, 0.5), (289, 0.2))
    steps = tuple(ValueStep(300 + minutes * 60, value) for minutes, value in later)
    assert job.goal == Deadline(300 + 159 * 60, Strictness.SOFT, steps)
    assert (job.at_least, job.at_most, job.seconds_on(1, "gpu")) == (1, 1, 96 * 60)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("0,vc,1,10,1,m,5,8,soon,10,0,strict", "expect_time_list"),
        ("0,vc,1,10,1,m,5,8,0,10,0,strict", "expect_time_list"),
        ("0,vc,1,10,1,m,5,8,9,10,0,perhaps", "job_type"),
        ("0,vc,1,10,1,m,5,8,9-8,10-5,0,soft", "expect_time_list"),
        ("0,vc,1,10,1,m,5,8,8-9,10,0,soft", "expect_value_list"),
        ("0,vc,1,10,1,m,5,8,8-9,10-11,0,soft", "expect_value_list"),
        ("0,vc,1,10,1,m,-5,8,9,10,0,strict", "duration"),
        ("0,vc,1.5,10,1,m,5,8,9,10,0,strict", "num_gpu"),
        ("0,vc,1,10,1,,5,8,9,10,0,strict", "model_name"),
    ],
)
def test_chronus_bad_cells(write: WriteFile, row: str, column: str) -> None:
    with pytest.raises(TraceError, match=rf"line 2, column '{column}'.*Allowed"):
        read_trace(write("c.csv", CHRONUS + row))


def test_astraea_hopes_become_soft_deadlines(write: WriteFile) -> None:
    (job,) = read_trace(write("a.csv", ASTRAEA + "7,Cardoso,4,688,7498,resnet50,3583,5,7370\n"))
    assert job == TraceJob(
        id="7", submitted_at=688, devices=4, duration_s=3583, model="resnet50", deadline=688 + 7370, tenant="Cardoso",
        rigid=True, soft=True,
    )  # fmt: skip
    with pytest.raises(TraceError, match="line 2, column 'expect_time': 'late'"):
        read_trace(write("a.csv", ASTRAEA + "7,Cardoso,4,688,7498,resnet50,3583,5,late\n"))


def test_helios_starts_at_zero_and_leaves_out_what_never_ran(write: WriteFile) -> None:
    rows = (
        "11,uA,vcA,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
        "10,uB,vcB,1,1,1,COMPLETED,2020-06-09 18:41:01,x,y,36848,0\n"
        "12,uB,vcB,0,8,1,COMPLETED,2020-06-09 18:41:01,x,y,10,0\n"
        "13,uB,vcB,1,8,1,CANCELLED,2020-06-09 18:41:01,x,y,0,0\n"
    )
    trace = read_trace(write("cluster_log.csv", HELIOS + rows))
    assert trace.format == "helios"
    assert trace.jobs == (
        TraceJob(
            id="10",
            submitted_at=0,
            devices=1,
            duration_s=36848,
            tenant="vcB",
            rigid=True,
            waited_s=0,
            ending=Ending.COMPLETED,
        ),
        TraceJob(
            id="11",
            submitted_at=26,
            devices=4,
            duration_s=249,
            tenant="vcA",
            rigid=True,
            waited_s=0,
            ending=Ending.FAILED,
        ),
    )
    assert dict(trace.skipped) == {"no GPU": 1, "no run time": 1}
    with pytest.raises(TraceError, match="line 2, column 'submit_time': 'then'"):
        read_trace(write("h.csv", HELIOS + "1,u,v,1,1,1,COMPLETED,then,x,y,5,0\n"))


def test_swf_asks_for_processors(write: WriteFile) -> None:
    jobs = (
        swf(1, 10, 5, 100, 8, -1, -1, 16, 200, -1, 1, 3, 1, -1, 1, -1, -1, -1)
        + swf(2, 0, 5, 60, 4, -1, -1, -1, -1, -1, 1, -1, 1, -1, 1, -1, -1, -1)
        + swf(3, 0, 5, -1, 4, -1, -1, 4, -1, -1, 5, 3, 1, -1, 1, -1, -1, -1)
        + swf(4, 0, 5, 9, -1, -1, -1, -1, -1, -1, 5, 3, 1, -1, 1, -1, -1, -1)
    )
    trace = read_trace(write("log.swf", SWF + jobs))
    assert trace.format == "swf"
    assert trace.jobs == (
        TraceJob(
            id="swf-2",
            submitted_at=0,
            devices=4,
            duration_s=60,
            tenant="default",
            rigid=True,
            waited_s=5,
            ending=Ending.COMPLETED,
        ),
        TraceJob(
            id="swf-1",
            submitted_at=10,
            devices=16,
            duration_s=100,
            tenant="user-3",
            rigid=True,
            waited_s=5,
            ending=Ending.COMPLETED,
        ),
    )
    assert dict(trace.skipped) == {"no run time": 1, "no processors": 1}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 2 3\n", "line 4: 3 fields. Allowed: 18 numbers"),
        (
            swf(1, -10, 5, 100, 8, -1, -1, 16, 200, -1, 1, 3, 1, -1, 1, -1, -1, -1),
            "line 4, column 'submit_time': '-10'",
        ),
        ("1 x 5 100 8 -1 -1 16 200 -1 1 3 1 -1 1 -1 -1 -1\n", "line 4, column 'submit_time': 'x'"),
    ],
)
def test_swf_bad_lines(write: WriteFile, line: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        read_trace(write("log.swf", SWF + line))


def sia_profiles(folder: Path) -> Path:
    app = folder / "profiles" / "cifar10"
    app.mkdir(parents=True)
    (app / "placements-aws.csv").write_text(
        "placement,local_bsz,step_time,sync_time\n"
        "1,32,0.4,0.0\n1,64,0.8,0.0\n2,32,0.5,0.1\n2,64,0.9,0.1\n11,32,0.7,0.3\n11,64,1.1,0.3\n"
    )
    (app / "scalability-aws.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,4,32,0.6,0.2\n")
    (app / "placements-dgx-ext.csv").write_text("local_bsz,step_time,sync_time,placement\n64,0.1,0.01,1\n")
    (app / "validation-128.csv").write_text("progress,iteration,metric,grad_sqr,grad_var\n1,50,0,0,0\n2,120,0,0,0\n")
    return folder / "profiles"


def test_sia_profiles_become_curves_at_a_fixed_global_batch(tmp_path: Path) -> None:
    profiles = Profiles.load(sia_profiles(tmp_path))
    curve = profiles.curve("cifar10", 128)
    assert curve.kinds == ("A100", "T4")
    assert curve.rate(1, "T4") == pytest.approx(1 / 1.6), "two passes of 64"
    assert curve.rate(2, "T4") == pytest.approx(1 / 0.9)
    assert curve.rate(2, "T4", nodes=2) == pytest.approx(1 / 1.1)
    assert curve.rate(4, "T4") == pytest.approx(1 / 0.6), "from the other file"
    assert curve.rate(1, "A100") == pytest.approx(1 / (0.1 + 0.09)), "the first of two passes exchanges nothing"
    assert profiles.work["cifar10", 128] == 120


def test_a_sia_workload_takes_its_work_from_the_profiles(write: WriteFile, tmp_path: Path) -> None:
    trace = read_trace(write("w.csv", SIA + "cifar10-0,107,cifar10,2,128\n"))
    assert trace.format == "sia"
    (job,) = jobs_of(trace, Profiles.load(sia_profiles(tmp_path)))
    assert (job.work.iterations, job.requested, job.at_most) == (120, 2, None)
    with pytest.raises(UnknownNameError, match="unknown model 'cifar10'"):
        list(jobs_of(trace, Profiles.builtin()))
    with pytest.raises(TraceError, match="line 2, column 'num_replicas'"):
        read_trace(write("w.csv", SIA + "cifar10-0,107,cifar10,none,128\n"))


@pytest.mark.parametrize(("file", "text", "said"), [
    ("placements-aws.csv", "placement,local_bsz,step_time,sync_time\n104,32,1,0\n", "column 'placement': '104'"),
    ("placements-aws.csv", "placement,local_bsz,step_time,sync_time\n1,32,0,0\n", "column 'step_time': '0'"),
    ("validation-128.csv", "progress,iteration\n", "holds no iteration"),
    ("validation-x.csv", "progress,iteration\n1,1\n", "names no batch size"),
])  # fmt: skip
def test_sia_profiles_that_are_broken_say_where(tmp_path: Path, file: str, text: str, said: str) -> None:
    folder = sia_profiles(tmp_path)
    (folder / "cifar10" / file).write_text(text)
    with pytest.raises(TraceError, match=said):
        Profiles.load(folder)


def adaptive_profiles(folder: Path) -> Path:
    """Twice the batch takes 2/3 instead of 1/2 of the iterations: an efficiency of 3/4, so a noise scale of 128."""
    found = sia_profiles(folder)
    for batch, iterations in ((64, 240), (128, 160)):
        text = f"progress,iteration,metric,grad_sqr,grad_var\n240,{iterations},0,0,0\n"
        (found / "cifar10" / f"validation-{batch}.csv").write_text(text)
    return found


def test_adaptive_batches_make_one_curve_of_goodput(write: WriteFile, tmp_path: Path) -> None:
    profiles = Profiles.load(adaptive_profiles(tmp_path), adaptive=True)
    statistics = profiles.statistics["cifar10"]
    assert (statistics.initial_batch, statistics.most_batch) == (64, 128)
    assert statistics.noise_scale == pytest.approx(128, rel=0.01)
    assert profiles.curve("cifar10", 64) is profiles.curve("cifar10", 128)
    t4 = profiles.curve("cifar10", 64).scaling("T4")
    assert t4 is not None
    assert (t4.counts, t4.batches) == ((1, 2, 4), (64, 64, 128)), "only four devices compute 128 as fast as less"
    assert t4.rates[0] == pytest.approx(1 / 0.8), "two passes of 64 take twice as long and bring half as much each"
    assert t4.rates[2] == pytest.approx(1 / 0.6 * 2 * statistics.efficiency(128))
    trace = read_trace(write("w.csv", SIA + "cifar10-0,107,cifar10,2,128\n"))
    (adaptive,) = jobs_of(trace, profiles)
    (fixed,) = jobs_of(trace, Profiles.load(tmp_path / "profiles"))
    assert (adaptive.work.iterations, adaptive.statistics) == (240, statistics)
    assert (fixed.work.iterations, fixed.statistics) == (160, None)
    assert adaptive.seconds_on(4, "T4") == pytest.approx(fixed.seconds_on(4, "T4"), rel=0.01), "the same batch there"


def test_adaptive_batches_need_validations(tmp_path: Path, write: WriteFile) -> None:
    with pytest.raises(InputError, match=r"adaptive batches with the profiles .*Allowed: Sia's profiles"):
        Profiles.load(throughputs(tmp_path / "t.json.gz"), adaptive=True)
    folder = adaptive_profiles(tmp_path)
    (folder / "cifar10" / "validation-64.csv").write_text("iteration\n240\n")
    with pytest.raises(TraceError, match="progress"):
        Profiles.load(folder, adaptive=True)


def test_a_rigid_trace_can_be_made_elastic(write: WriteFile, profiles: Profiles) -> None:
    text = ASTRAEA + "7,Cardoso,4,688,7498,resnet50,3583,5,7370\n"
    rigid, elastic = (
        Workload(trace=read_trace(write("a.csv", text)), profiles=profiles, elastic=flag).jobs()[0]
        for flag in (False, True)
    )
    assert (rigid.at_least, rigid.at_most, rigid.curve.kinds) == (4, 4, (ANY_KIND,))
    assert elastic.at_most is None
    assert elastic.model in profiles.names
    assert elastic.seconds_on(4, "gpu") == pytest.approx(3583)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl.gz"])
def test_rigid_and_soft_jobs_survive_our_own_format(write: WriteFile, tmp_path: Path, name: str) -> None:
    rows = "0,a,4,10,6910,resnet101,211,8,282,10,0,strict\n1,b,1,15,5530,vgg16,96,5,159-189,10-8,0,soft\n"
    trace = read_trace(write("c.csv", CHRONUS + rows))
    write_trace(tmp_path / name, trace)
    assert read_trace(tmp_path / name).jobs == trace.jobs
    with pytest.raises(TraceError, match="column 'marks': 'stiff'"):
        read_trace(write("t.csv", "id,submitted,duration,marks\na,0,60,stiff\n"))
    mixed = [TraceJob(id="a", submitted_at=0, duration_s=1), TraceJob(id="b", submitted_at=0, duration_s=1, rigid=True)]
    with pytest.raises(TraceError, match="'b' is rigid and the first job is not"):
        write_trace(tmp_path / "mixed.csv", mixed)


PUBLIC = {
    "gavel/traces/max_min_fairness.trace": ("gavel", 96, {}),
    "gavel/traces/minimize_makespan.trace": ("gavel", 100, {}),
    "gavel/traces/msr_seed0_0e4a51.trace.gz": ("gavel", 1181, {}),
    "sia/workloads/philly/workload-1.csv": ("sia", 160, {}),
    "sia/workloads/newtrace/workload-1.csv": ("sia", 960, {}),
    "chronus/traces/trace_job_Philly_SLO.csv.gz": ("chronus", 30735, {"no GPU": 205}),
    "astraea/synthetic_500jobs.csv": ("astraea", 500, {}),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_files_are_read_to_the_end(public: Public, name: str) -> None:
    found = describe(read_trace(public(name)))
    assert (found.format, found.jobs, found.skipped) == PUBLIC[name]


def test_every_public_gavel_job_has_a_throughput(public: Public) -> None:
    profiles = Profiles.load(public("gavel/simulation_throughputs.json.gz"))
    assert profiles.kinds == {"V100", "P100", "K80"}
    for name in ("max_min_fairness.trace", "msr_seed0_ed69ec.trace.gz"):
        jobs = list(jobs_of(read_trace(public(f"gavel/traces/{name}")), profiles))
        assert all(job.curve.rate(job.requested, "V100") > 0 for job in jobs)


def test_every_public_sia_job_has_a_curve_and_work(public: Public) -> None:
    profiles = Profiles.load(public("sia/profiles"))
    jobs = list(jobs_of(read_trace(public("sia/workloads/philly/workload-1.csv")), profiles))
    assert all(job.work.iterations > 0 for job in jobs)
    assert all(job.curve.rate(1, "A100") > job.curve.rate(1, "T4") > 0 for job in jobs)


def test_every_public_sia_application_fits_one_noise_scale(public: Public) -> None:
    """Within a tenth of the progress that was made at every batch."""
    fixed, adaptive = (Profiles.load(public("sia/profiles"), adaptive=each) for each in (False, True))
    for (model, batch), iterations in fixed.work.items():
        statistics, work = adaptive.statistics[model], adaptive.work[model, batch]
        made = work / iterations * statistics.initial_batch / batch
        assert statistics.efficiency(batch) == pytest.approx(made, rel=0.1), (model, batch)


@pytest.mark.long
def test_srtf_on_chronus_meets_what_it_met_before(public: Public) -> None:
    """0.985 of the deadlines of the SLO trace on 120 x 8 devices, counted apart from this reader."""
    trace = read_trace(public("chronus/traces/trace_job_Philly_SLO.csv.gz"))
    workload = Workload(trace=trace, profiles=Profiles.builtin())
    summary = run_policy("srtf", workload, Setting(cluster=Cluster.parse("120x8"))).summary
    assert summary.ratio == pytest.approx(0.985, abs=0.001)
