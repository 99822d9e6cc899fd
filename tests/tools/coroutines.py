"""Coroutines in tests: in a thread of their own, for a browser that is open keeps an event loop in the main thread."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, or raises."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
