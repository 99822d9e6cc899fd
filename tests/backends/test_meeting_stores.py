"""The agent's store does what torch asks of one, and waits without holding anybody else up."""

import asyncio
import base64

import pytest

from penstock.backends.agent.meeting_stores import KEPT, MeetingStore, MeetingStores
from penstock.core import StoreOp, StoreReply, StoreRequest
from tests.tools import coroutines


def ask(op: StoreOp, *keys: str, timeout_s: float = 0.0, **values: object) -> StoreRequest:
    return StoreRequest(op=op, keys=keys or ("k",), timeout_s=timeout_s, **values)  # type: ignore[arg-type]


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


async def _questions() -> list[StoreReply]:
    store = MeetingStore()
    questions = [
        ask(StoreOp.CHECK),
        ask(StoreOp.GET),
        ask(StoreOp.SET, value=text("a")),
        ask(StoreOp.GET),
        ask(StoreOp.CHECK, "k", "other"),
        ask(StoreOp.COMPARE_SET, expected=text("b"), value=text("c")),
        ask(StoreOp.COMPARE_SET, expected=text("a"), value=text("c")),
        ask(StoreOp.COMPARE_SET, "new", expected="", value=text("n")),
        ask(StoreOp.ADD, "count", amount=2),
        ask(StoreOp.ADD, "count", amount=3),
        ask(StoreOp.DELETE),
        ask(StoreOp.DELETE),
    ]
    return [await store.answer(question) for question in questions]


def test_it_answers_as_a_store_does() -> None:
    absent, unset, _, found, partly, kept, swapped, made, two, five, gone, again = coroutines.run(_questions())
    assert [absent.done, unset.done, found.done, partly.done, gone.done, again.done] == [
        False, False, True, False, True, False,
    ]  # fmt: skip
    assert [found.value, kept.value, swapped.value, made.value] == [text("a"), text("a"), text("c"), text("n")]
    assert (two.amount, five.amount) == (2, 5)


async def _wait() -> tuple[bool, bool]:
    store = MeetingStore()
    waiting = asyncio.create_task(store.answer(ask(StoreOp.WAIT, "w0", "w1", timeout_s=60.0)))
    early = await store.answer(ask(StoreOp.SET, "w0", value=""))
    before = waiting.done()
    await store.answer(ask(StoreOp.SET, "w1", value=""))
    return early.done and not before, (await waiting).done


def test_whoever_waits_is_answered_when_the_last_one_comes() -> None:
    assert coroutines.run(_wait()) == (True, True)


def test_stores_of_old_generations_are_dropped() -> None:
    stores = MeetingStores()
    for generation in range(10):
        stores.open(generation)
    assert sorted(stores._stores) == list(range(10 - KEPT, 10))


@pytest.mark.parametrize("fields", [{"keys": ()}, {"timeout_s": -1.0}, {"timeout_s": float("inf")}], ids=str)
def test_questions_that_mean_nothing_cannot_be_asked(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        StoreRequest(**{"op": StoreOp.WAIT, "keys": ("k",), **fields})  # type: ignore[arg-type]
