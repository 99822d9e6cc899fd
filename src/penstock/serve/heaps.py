"""Few heaps for many threads, and large arrays given back at once.

The C library gives threads heaps of their own, up to eight for each core, and each keeps what it once needed. Every
thread of the server takes a turn at deciding over all jobs, with arrays of some megabytes: with thousands of jobs
waiting, half of the server's memory was room that one of the heaps kept for its next turn.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MOST_HEAPS = -1, -3, -8
"""Parameters of ``mallopt``, as glibc numbers them."""
_LARGE = 1 << 20


def limit_heaps() -> None:
    """To be called before threads are started; without effect where the C library is another."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt"):
        for parameter, value in ((_MOST_HEAPS, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE)):
            library.mallopt(parameter, value)
