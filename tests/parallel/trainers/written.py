"""Exports of every family that a trainer takes, over clusters and plans of every sort."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule
from penstock.parallel import (
    Candidate,
    ChipMesh,
    Exported,
    Family,
    Planner,
    TrainerKernels,
    family_named,
    mesh_named,
)
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of
from tests.tools import needs

BATCH = 64
ROOT = Path(__file__).parents[3]
LIBRARY = json.loads(Path(__file__).parent.with_name("library_parameters.json").read_text(encoding="utf-8"))["models"]

Trainer = Callable[[Candidate, Family, ChipMesh], Exported]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan to be written out: degrees, and what may differ from the plainest plan."""

    model: str
    cluster: str = "4x8xA100-80GB"
    pp: int = 1
    tp: int = 1
    context: int = 1
    micro_batch: int = 1
    zero: int = 0
    recompute: Recompute = Recompute.NONE
    interleave: int = 1
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    layers: tuple[int, ...] = ()
    experts: int = 1
    seq: int | None = None
    precision: str = "half"
    tp_overlap: bool = False

    @property
    def label(self) -> str:
        words = [self.model, self.cluster, f"pp{self.pp} tp{self.tp} cp{self.context} zero{self.zero}"]
        words += [str(self.recompute), str(self.schedule)] + (["unequal"] if self.layers else [])
        words += [self.precision] + (["overlapped"] if self.tp_overlap else [])
        return " ".join(words)

    def planner(self) -> Planner:
        how = TrainerKernels(precision=self.precision, tp_overlap=self.tp_overlap)
        return _planner(self.model, self.cluster, self.seq, how)

    def plan(self) -> ParallelPlan:
        planner = self.planner()
        dp = planner.mesh.devices // (self.pp * self.tp * self.context)
        plan = plan_of(
            Degrees(self.pp, self.tp, dp, self.context, self.micro_batch), planner.family.chain(), planner.family,
            BATCH, recompute=self.recompute, zero=self.zero, sequence_parallel=True,
        )  # fmt: skip
        assert plan is not None
        plan = replace(plan, schedule=self.schedule, interleave=self.interleave, experts=self.experts)
        return with_layers(plan, planner.family, self.layers) if self.layers else plan

    def written(self, trainer: Trainer) -> Exported:
        planner, plan = self.planner(), self.plan()
        candidate = Candidate(origin="uniform", plan=plan, prediction=planner.predict(plan))
        return trainer(candidate, planner.family, planner.mesh)


@cache
def _planner(model: str, cluster: str, seq: int | None, how: TrainerKernels) -> Planner:
    family, mesh = _family(model, seq), mesh_named(cluster)
    return Planner(family=family, mesh=mesh, batch=BATCH, trainer=how.trainer(mesh, family))


def _family(model: str, seq: int | None) -> Family:
    """A model by our name, or by that of a configuration of the library."""
    if model not in LIBRARY:
        return family_named(model, seq)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{model}.json")
        path.write_text(json.dumps(LIBRARY[model]["config"]), encoding="utf-8")
        return family_named(str(path), seq)


def with_layers(plan: ParallelPlan, family: Family, layers: tuple[int, ...], shift: int = 0) -> ParallelPlan:
    """The plan with stages of these layers, all but the first border moved ``shift`` operators into a layer."""
    chain, cuts, done = family.chain(), [0], 0
    starts = [i for i, flag in enumerate(chain.starts_layer.tolist()) if flag]
    for count in layers[:-1]:
        done += count
        cuts.append(starts[done] + shift)
    cuts.append(chain.size)
    first, again = plan.stages[0], [flag for stage in plan.stages for flag in stage.recompute]
    stages = tuple(
        replace(
            ParallelStage.uniform(b - a, tp=first.tp[0], dp=first.dp[0], context=plan.context),
            recompute=tuple(again[a:b]),
        )
        for a, b in pairwise(cuts)
    )
    return replace(plan, stages=stages)


INTERLEAVED, ZERO_BUBBLE = PipelineSchedule.INTERLEAVED, PipelineSchedule.ZERO_BUBBLE

DENSE = (
    Case(model="gpt-1.3b", cluster="8xA100-80GB"),
    Case(model="gpt-1.3b", cluster="2x8xV100-32GB", tp=2, zero=1),
    Case(model="gpt-6.7b", pp=4, tp=2, micro_batch=2, zero=1),
    Case(model="gpt-6.7b", pp=4, tp=2, recompute=Recompute.SELECTIVE),
    Case(model="gpt-6.7b", pp=4, tp=2, recompute=Recompute.NORMS),
    Case(model="gpt-6.7b", pp=4, tp=2, recompute=Recompute.FULL, layers=(7, 9, 9, 7)),
    Case(model="gpt-6.7b", pp=4, tp=2, schedule=INTERLEAVED, interleave=2),
    Case(model="gpt-6.7b", pp=4, tp=2, schedule=INTERLEAVED, interleave=2, layers=(7, 9, 9, 7)),
    Case(model="gpt-6.7b", pp=4, tp=2, schedule=ZERO_BUBBLE),
    Case(model="gpt-6.7b", tp=1, zero=3),
    Case(model="gpt-6.7b", tp=4, zero=2),
    Case(model="gpt-3.6b", cluster="8x8xH100", pp=4, tp=2, zero=1),
)
LLAMA = (
    Case(model="llama-8b", cluster="8xH100", zero=3, seq=8192),
    Case(model="llama-8b", pp=2, tp=4, zero=1),
    Case(model="llama-8b", pp=4, tp=2, layers=(7, 9, 9, 7)),
    Case(model="llama-8b", pp=4, tp=2, schedule=INTERLEAVED, interleave=4),
    Case(model="llama-8b", pp=4, tp=2, schedule=ZERO_BUBBLE),
    Case(model="llama-8b", tp=2, context=4, zero=1, seq=65536, recompute=Recompute.FULL),
    Case(model="llama-8b", tp=2, context=16, zero=1, seq=131072, recompute=Recompute.FULL),
    Case(model="llama-3-70b", cluster="8x8xH200", pp=4, tp=8, zero=1, seq=8192, recompute=Recompute.SELECTIVE),
    Case(model="llama-1b", cluster="8xA100-40GB"),
)
NARROW = (
    Case(model="llama-8b", cluster="8xH100", zero=3, seq=8192, precision="fp8"),
    Case(model="llama-8b", cluster="2x8xH100", pp=2, tp=4, zero=1, precision="fp8", tp_overlap=True),
)
"""In fp8, which DeepSpeed has no word for."""
OTHERS = (
    Case(model="llama-13b", pp=4, tp=4),
    Case(model="t5-770m", cluster="8xV100-32GB", tp=2, recompute=Recompute.FULL),
    Case(model="mixtral-8x7b", cluster="8x8xH100", pp=4, tp=8, zero=1, recompute=Recompute.FULL),
    Case(model="mixtral-8x7b", cluster="8x8xH100", pp=2, tp=4, zero=1, experts=8, recompute=Recompute.FULL),
    Case(model="mistral-7b", pp=2, tp=4, zero=1, seq=8192),
    Case(model="qwen3-8b", pp=2, tp=4, zero=1),
    Case(model="qwen2.5-7b", pp=4, tp=4),
    Case(model="t5-3b", cluster="2x8xA100-80GB", tp=4, zero=1),
)


def arguments_of(written: Exported) -> list[str]:
    """What a shell passes on of ``$(cat megatron.args)``: words between blanks, quotes left as they are."""
    return written.text.split()


def environment_of(written: Exported) -> dict[str, str]:
    """The variables that the launch line sets before its command."""
    words = shlex.split(written.launch)
    pairs = [word.partition("=") for word in words[: words.index("torchrun")] if "=" in word]
    return {name: value for name, _, value in pairs}


def checkout(variable: str, *needed: str) -> str:
    """Where the trainer's own source is; the test is skipped where nobody said, or its packages are not installed."""
    path = os.environ.get(variable, "")
    if not path:
        needs.skip("the trainer's own parser is not here", f"set {variable} to a checkout of the trainer")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        needs.skip("the trainer's packages are missing", f"pip install {' '.join(missing)}")
    return path


def verdicts(reader: str, source: str, questions: list[Any]) -> list[str]:
    """What a reader of this folder, with the trainer's source on its path, says to each question."""
    command = [sys.executable, "-m", f"tests.parallel.trainers.{reader}", source]
    done = subprocess.run(
        command, input=json.dumps(questions), capture_output=True, text=True, check=False, timeout=900, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[str] = json.loads(done.stdout)
    return answers


def labelled(cases: tuple[Case, ...]) -> list[ParameterSet]:
    return [pytest.param(case, id=case.label) for case in cases]
