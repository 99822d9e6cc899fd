"""Modules that hosts of parts run for their agent before a worker starts there, and how they ended.

An order is said again to a host that comes back, and given up with its part.
"""

import asyncio
from dataclasses import dataclass
from itertools import count

from penstock.backends.agent.hosted_part import HostedPart
from penstock.backends.agent.part_messages import ModuleDrop, ModuleEnded, ModuleOrder
from penstock.backends.agent.side_processes import NOT_STARTED, SideEnd
from penstock.core import ModuleCall


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    part: HostedPart
    order: ModuleOrder
    over: "asyncio.Future[SideEnd]"


class HostCalls:
    """All of one run, by their numbers."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._pending: dict[int, _Pending] = {}

    async def run(self, part: HostedPart, call: ModuleCall) -> SideEnd:
        """Wait for the end of a module at a part; cancelled, its host is told to end it."""
        assert part.launch is not None
        order = ModuleOrder(
            call=next(self._numbers), module=call.module, words=call.words, own=call.own, launch=part.launch,
            variables=tuple(sorted(part.variables.items())), node=part.worker.node,
        )  # fmt: skip
        over: asyncio.Future[SideEnd] = asyncio.get_running_loop().create_future()
        self._pending[order.call] = _Pending(part=part, order=order, over=over)
        part.send(order)
        try:
            return await over
        finally:
            if self._pending.pop(order.call, None) is not None:
                part.send(ModuleDrop(call=order.call))

    def repeat(self, part: HostedPart) -> None:
        """What was ordered while its line was down."""
        for each in self._pending.values():
            if each.part is part:
                part.send(each.order)

    def ended(self, part: HostedPart, told: ModuleEnded) -> None:
        each = self._pending.get(told.call)
        if each is not None and each.part is part:
            self._resolve(told.call, SideEnd(code=told.code, output=told.output))

    def give_up(self, part: HostedPart, words: str) -> None:
        """A part is gone, or its worker not wanted any more."""
        for number in [number for number, each in self._pending.items() if each.part is part]:
            self._resolve(number, SideEnd(code=NOT_STARTED, output=words))

    def _resolve(self, number: int, end: SideEnd) -> None:
        over = self._pending.pop(number).over
        if not over.done():
            over.set_result(end)
