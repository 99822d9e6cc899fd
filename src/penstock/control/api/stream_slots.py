"""How many streams may be open: each costs a connection and some work for as long as somebody listens."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.wire import TooManyError


class StreamSlots:
    """Counts open streams, by token and in all."""

    def __init__(self, most: int, most_per_token: int) -> None:
        self._most = most
        self._most_per_token = most_per_token
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self, token_id: str) -> None:
        """Whether there is room for one more; raises :class:`~penstock.wire.TooManyError`."""
        with self._lock:
            mine, all_of_them = self._open[token_id], self._open.total()
        if mine >= self._most_per_token:
            raise TooManyError(
                f"This token has {mine} streams open", f"at most {self._most_per_token}", "Close one that is not read"
            )
        if all_of_them >= self._most:
            raise TooManyError(f"{all_of_them} streams are open", f"at most {self._most}", "Try again later")

    @contextmanager
    def taken(self, token_id: str) -> Iterator[None]:
        with self._lock:
            self._open[token_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[token_id] -= 1
                if not self._open[token_id]:
                    del self._open[token_id]
