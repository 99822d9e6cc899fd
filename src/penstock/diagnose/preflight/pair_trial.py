"""One round of collectives: worlds of nodes side by side, each with members that must agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import ModuleCall, NodeAnswer, NodeReach
from penstock.diagnose.preflight.collectives import member_report
from penstock.diagnose.preflight.pairing import World
from penstock.diagnose.preflight.reaching import run_all

_MODULE = "penstock.diagnose.preflight.collectives"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTrial:
    """A :data:`~penstock.diagnose.preflight.pairing.Trial` on real nodes. ``least_bytes_s`` is what an all-reduce must
    reach."""

    reach: NodeReach
    timeout_s: float = 120.0
    least_bytes_s: float = 0.0

    def __call__(self, worlds: Sequence[World]) -> list[bool]:
        calls = [call for world in worlds for call in self._calls(world)]
        members = [number for number, world in enumerate(worlds) for _ in world]
        answers = iter(run_all(calls, self.reach, timeout_s=self.timeout_s, worlds=members))
        well = [[self._is_well(next(answers)) for _ in world] for world in worlds]
        return list(map(all, well))

    def _calls(self, world: World) -> list[ModuleCall]:
        host, port = self.reach.meeting(world[0])
        return [
            ModuleCall(node=node, module=_MODULE, words=(str(rank), str(len(world)), host, str(port)))
            for rank, node in enumerate(world)
        ]

    def _is_well(self, answer: NodeAnswer) -> bool:
        said = [member_report(line) for line in answer.output.splitlines()]
        told = next((each for each in said if each is not None), None)
        return answer.code == 0 and told is not None and not told.wrong and told.bytes_s >= self.least_bytes_s
