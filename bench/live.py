"""What the live platform costs and what its promises are worth, measured on this machine.

`python -m bench.live server`   one server with 5,000 jobs in it: latencies, followers, memory, idle CPU (about 3 min)
`python -m bench.live quotes`   20 real jobs: what each was told at submission and what became of it (about 8 min).
                                Before that each program runs once on each width, so that the platform has learned its
                                speed and what it takes to start and to end. Steps wait for an accelerator that is not
                                there (:mod:`bench.steady`); with --cpu they are the examples, computed on two
                                processor cores that everything else on this machine uses too

Without a word both run. The server's rate limits (50 requests a second per token by default) are lifted by
configuration, and its backend starts no processes (:mod:`bench.null_backend`): the server alone is measured.
"""

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from bench.null_backend import OUTPUT
from penstock.client import Client, DataDir
from penstock.client.profile_job import watch
from penstock.serve import Config, serve
from penstock.wire.views import JobDetail

STORED = int(os.environ.get("BENCH_JOBS", "5000"))
SAMPLES = 200
ROUNDS = 3
FILLERS = 4
FOLLOWERS = 200
LINES = 10
IDLE_S = 10.0
PATIENCE_S = 60.0

HERE = Path(__file__).resolve().parent
JOBS = 20
IMPOSSIBLE = 13
WATCHED_S = 8.0
LONGEST_S = 300.0
OVER = ("finished", "failed", "declined", "cancelled")


def main() -> None:
    chosen = sys.argv[1:]
    if chosen[:1] == ["serve"]:
        serve(lifted(Path(chosen[1])))
        return
    if chosen[:1] == ["work"]:
        serve(Config(data_dir=Path(chosen[1]), slots=int(chosen[2])))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not chosen or "server" in chosen:
        server()
    if not chosen or "quotes" in chosen:
        quotes(CPU if "--cpu" in chosen else STEADY)


def lifted(data_dir: Path) -> Config:
    """A server as it is by default, but without limits on requests and without work."""
    return Config(data_dir=data_dir, backend="bench.null_backend:NullBackend", requests_per_s=1e9, burst=10**9)


@contextmanager
def running(data_dir: Path, *command: str, patience_s: float = PATIENCE_S) -> Iterator[tuple[Client, psutil.Process]]:
    """A server in a process of its own, which is stopped afterwards."""
    with (data_dir / "bench-server.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
    try:
        with answering(data_dir, process, patience_s) as client:
            yield client, psutil.Process(process.pid)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


def answering(data_dir: Path, process: "subprocess.Popen[bytes]", patience_s: float = PATIENCE_S) -> Client:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(Exception):
            client = Client.local(data_dir)
            if client.ready():
                return client
        time.sleep(0.05)
    raise SystemExit(f"the server does not start: {(data_dir / 'bench-server.log').read_text()[-2000:]}")


# --- one server, many jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Times:
    """Latencies of one kind of request over a few rounds; the best round and the worst tell how noisy it was."""

    rounds: list[list[float]]

    def row(self, what: str, target: str = "-") -> list[str]:
        best, worst = min(self.rounds, key=percentile), max(self.rounds, key=percentile)
        shown = (statistics.fmean(best), statistics.median(best), percentile(best), max(best), percentile(worst))
        return [what, str(len(best)), *(f"{1e3 * seconds:.1f}" for seconds in shown), target]


def percentile(values: list[float], share: float = 0.99) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def server() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        data = Path(name)
        with running(data, "bench.live", "serve", name) as (client, process):
            latencies, figures = Table(title=f"One server, {STORED} jobs stored; ms, best of {ROUNDS} rounds"), Table()
            for column in ("request", "requests", "mean", "p50", "p99", "worst", "p99 of the worst round", "target"):
                latencies.add_column(column)
            for column in ("what", "measured", "target"):
                figures.add_column(column)
            for row in measured_latencies(client):
                print(*row, sep="  ", file=sys.stderr, flush=True)
                latencies.add_row(*row)
            for row in measured_figures(client, process, data):
                figures.add_row(*row)
        console = Console(width=150)
        console.print(latencies)
        console.print(figures)


def plain_job(number: int = 0) -> dict[str, Any]:
    return {
        "name": f"job-{number}", "command": ["/bin/true"], "work": "1000 steps", "best_effort": True, "devices": "1..",
        "environment": {"working_dir": "/tmp"},
    }  # fmt: skip


def measured_latencies(client: Client) -> Iterator[list[str]]:
    filling = filled(client, STORED - ROUNDS * SAMPLES)
    yield Times([filling]).row(f"submit, {FILLERS} clients at once, the first {len(filling)}")
    submits = [timed(lambda: client.submit(plain_job()), SAMPLES) for _ in range(ROUNDS)]
    yield Times(submits).row("submit", "p99 < 50 ms")
    somebody = client.jobs(limit=1).jobs[0].id
    urgent = plain_job() | {"best_effort": None, "deadline": "10h"}
    for what, ask, times, target in (
        ("list of jobs (penstock ps)", client.jobs, 100, "< 100 ms"),
        ("one job", lambda: client.job(somebody), 100, "-"),
        ("quote, best effort", lambda: client.quote(plain_job()), 10, "-"),
        ("quote, deadline", lambda: client.quote(urgent), 10, "-"),
    ):
        yield Times([timed(ask, times) for _ in range(ROUNDS)]).row(what, target)


def filled(client: Client, count: int) -> list[float]:
    with ThreadPoolExecutor(FILLERS) as pool:
        share = count // FILLERS
        parts = [share] * (FILLERS - 1) + [count - share * (FILLERS - 1)]
        taken = pool.map(lambda part: timed(lambda: client.submit(plain_job()), part), parts)
        return [seconds for part in taken for seconds in part]


def timed(ask: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return taken


def measured_figures(client: Client, process: psutil.Process, data: Path) -> Iterator[list[str]]:
    idle = [idle_percent(process) for _ in range(ROUNDS)]
    yield ["idle CPU over 10 s", f"{min(idle):.2f} % (worst {max(idle):.2f} %)", "< 1 %"]
    yield ["resident memory", f"{process.memory_info().rss / 2**20:.0f} MiB", "-"]
    first = client.jobs(cursor="2", limit=1).jobs[0].id
    began = process.cpu_times()
    delays = asyncio.run(follow(client.url, DataDir(data).owner_token() or "", first, data / OUTPUT))
    used = sum(process.cpu_times()[:2]) - sum(began[:2])
    complete = sum(len(seen) == LINES for seen in delays)
    every = [delay for seen in delays for delay in seen]
    yield ["log followers that got every line", f"{complete} of {FOLLOWERS}", "200"]
    if every:
        p50, p99, worst = (1e3 * value for value in (statistics.median(every), percentile(every), max(every)))
        yield ["a line reaches a follower after", f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms", "-"]
    yield ["CPU of the server while they follow", f"{used:.1f} s for {LINES} lines, one a second", "-"]


def idle_percent(process: psutil.Process) -> float:
    before = sum(process.cpu_times()[:2])
    time.sleep(IDLE_S)
    return 100.0 * (sum(process.cpu_times()[:2]) - before) / IDLE_S


async def follow(url: str, token: str, job_id: str, output: Path) -> list[list[float]]:
    """The delays of every line at every follower; a line says when it was written."""
    delays: list[list[float]] = [[] for _ in range(FOLLOWERS)]
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {token}"}
    connected = [asyncio.Event() for _ in range(FOLLOWERS)]
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, trust_env=False, timeout=30) as http:
        tasks = [
            asyncio.create_task(listen(http, f"/v1/jobs/{job_id}/logs/stream", seen, there))
            for seen, there in zip(delays, connected, strict=True)
        ]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(there.wait() for there in connected))
        with output.open("a") as file:
            for _ in range(LINES):
                file.write(f"at={time.time()}\n")
                file.flush()
                await asyncio.sleep(1.0)
        await asyncio.wait(tasks, timeout=10.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return delays


async def listen(http: httpx.AsyncClient, path: str, seen: list[float], there: asyncio.Event) -> None:
    async with http.stream("GET", path) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            there.set()
            now = time.time()
            seen.extend(now - float(stamp.split("\\n")[0]) for stamp in line.split("at=")[1:])
            if len(seen) >= LINES:
                return


# --- promises -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mix:
    """What runs where: programs by name, slots, seconds between two jobs and seconds of work on one slot of each."""

    programs: dict[str, tuple[str, ...]]
    slots: int
    every_s: float
    sizes_s: tuple[float, float]
    folder: Path
    epoch: int = 24
    """Steps in an epoch; every size is a multiple of it."""

    def spec(self, program: str, steps: int, width: str = "1..2") -> dict[str, Any]:
        script, *args = self.programs[program]
        return {
            "name": program, "script": str(self.folder / script), "args": args, "work": f"{steps} steps",
            "steps_per_epoch": self.epoch, "devices": width, "environment": {"working_dir": str(self.folder)},
        }  # fmt: skip

    def steps(self, seconds: float, rate: float) -> int:
        return max(self.epoch, round(seconds * rate / self.epoch) * self.epoch)


CPU = Mix(
    {
        "gpt": ("gpt.py", "--steps", "{steps}"), "cnn": ("cnn.py", "--epochs", "{epochs}"),
        "plain_torchrun": ("plain_torchrun.py", "--steps", "{steps}"),
    },
    slots=2, every_s=24.0, sizes_s=(15.0, 30.0), folder=HERE.parent / "src" / "penstock" / "examples",
)  # fmt: skip
STEADY = Mix(
    {
        "small": ("steady.py", "--steps", "{steps}", "--step-s", "0.05"),
        "large": ("steady.py", "--steps", "{steps}", "--step-s", "0.2"),
        "plain": ("steady.py", "--steps", "{steps}", "--step-s", "0.1", "--plain"),
    },
    slots=10, every_s=15.0, sizes_s=(35.0, 70.0), folder=HERE,
)  # fmt: skip


def quotes(mix: Mix) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        data = Path(name)
        with running(data, "bench.live", "work", name, str(mix.slots)) as (client, _):
            speeds = {program: learned(client, mix, program) for program in mix.programs}
            jobs = list(mixed(mix, speeds))
            promised = [submitted(client, mix, job) for job in jobs]
            await_all(client, promised, time.monotonic() + LONGEST_S)
            outcomes = [Outcome(job, first, client.job(first.id)) for job, first in zip(jobs, promised, strict=True)]
            tell(mix, outcomes, speeds)
            if keep := os.environ.get("BENCH_KEEP"):
                keep_log(client, Path(keep))
            ended(client, data)


@dataclass(frozen=True, slots=True)
class Mixed:
    """One job of the mix: a program, its size, and how much time it has (none: best effort)."""

    program: str
    steps: int
    within_s: float | None


def learned(client: Client, mix: Mix, program: str) -> float:
    """Steps per second on one slot, after a short run to its end on each width; the platform learns as it looks on."""
    rate = watch(client, mix.spec(program, 240_000, "1"), WATCHED_S)
    for width in ("1", "2"):
        spec = mix.spec(program, mix.steps(WATCHED_S, rate), width)
        await_all(client, [client.submit(spec).job], time.monotonic() + 90)
    return rate


def mixed(mix: Mix, speeds: dict[str, float]) -> Iterator[Mixed]:
    """Sizes are seconds of work on one slot; of every five jobs two have a deadline, and one of all cannot be met."""
    rng = random.Random(7)
    for number in range(JOBS):
        program = list(mix.programs)[number % len(mix.programs)]
        seconds = rng.uniform(*mix.sizes_s)
        within = rng.choice((1.5, 2.5, 4.0)) * seconds + 40.0 if number % 5 in (1, 3) else None
        yield Mixed(program, mix.steps(seconds, speeds[program]), 2.0 if number == IMPOSSIBLE else within)


def keep_log(client: Client, place: Path) -> None:
    """Everything the server recorded, for whoever wants to know why a forecast was off."""
    after, lines = 0, list[str]()
    while page := client.events(after=after, limit=1000).events:
        lines += [event.model_dump_json() for event in page]
        after = page[-1].seq
    place.write_text("\n".join(lines))


def submitted(client: Client, mix: Mix, job: Mixed) -> JobDetail:
    goal = {"deadline": f"{job.within_s:.0f}s"} if job.within_s else {}
    detail = client.submit(mix.spec(job.program, job.steps) | goal).job
    time.sleep(mix.every_s)
    return detail


def await_all(client: Client, jobs: list[JobDetail], deadline: float) -> None:
    while time.monotonic() < deadline and any(client.job(job.id).state not in OVER for job in jobs):
        time.sleep(0.5)


def ended(client: Client, data: Path) -> None:
    """Whatever still runs is stopped, and waited for."""
    for job in client.jobs().jobs:
        if job.state not in OVER:
            client.cancel(job.id)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and any(agents(data)):
        time.sleep(0.2)


def agents(data: Path) -> Iterator[int]:
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        if any(str(data / "runs") in word for word in command):
            yield process.info["pid"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job was told, and what became of it."""

    job: Mixed
    first: JobDetail
    last: JobDetail

    @property
    def expected(self) -> float | None:
        return since(self.first, self.first.expected_at)

    @property
    def took(self) -> float | None:
        return since(self.first, self.last.ended_at) if self.last.state == "finished" else None

    @property
    def error(self) -> float | None:
        return (self.expected - self.took) / self.took if self.expected is not None and self.took else None

    @property
    def promised(self) -> bool:
        return self.job.within_s is not None and self.last.state != "declined"

    @property
    def kept(self) -> bool:
        return self.promised and self.took is not None and self.took <= (self.job.within_s or 0.0)

    def row(self) -> list[str]:
        job, quote = self.job, self.first.quote
        goal = f"{job.within_s:.0f} s" if job.within_s else "best effort"
        kept = "-" if not self.promised else "kept" if self.kept else "MISSED"
        error = "-" if self.error is None else f"{self.error:+.0%}"
        took = self.last.state if self.took is None else f"{self.took:.1f}"
        expected = "nothing" if self.expected is None else f"{self.expected:.1f}"
        answer = quote.verdict if quote else "-"
        return [f"{self.first.number} {job.program}", str(job.steps), goal, answer, expected, took, error, kept]


def tell(mix: Mix, outcomes: list[Outcome], speeds: dict[str, float]) -> None:
    """The error is |predicted - actual| / (actual - submitted): the forecast given at submission against the end."""
    table = Table(title=f"{len(outcomes)} jobs on {mix.slots} slots, one every {mix.every_s:.0f} s")
    for column in ("job", "steps", "goal", "answer", "expected s", "took s", "error", "deadline"):
        table.add_column(column)
    for outcome in outcomes:
        table.add_row(*outcome.row())
    console = Console(width=150)
    console.print(table)
    console.print(", ".join(f"{program}: {rate:.1f} steps/s on 1 slot" for program, rate in speeds.items()))
    errors = [abs(outcome.error) for outcome in outcomes if outcome.error is not None]
    if errors:
        mean = statistics.fmean(errors)
        middle, worst = statistics.median(errors), max(errors)
        console.print(f"error of the predicted finish: mean {mean:.1%}, median {middle:.1%}, worst {worst:.0%}")
    given, kept = (sum(outcome.promised for outcome in outcomes), sum(outcome.kept for outcome in outcomes))
    console.print(f"hard promises given: {given}, kept: {kept}")


def since(first: JobDetail, moment: datetime | None) -> float | None:
    return None if moment is None else (moment - first.submitted_at).total_seconds()


if __name__ == "__main__":
    main()
