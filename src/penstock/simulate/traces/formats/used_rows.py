"""The rows of a log that are jobs: those that asked for devices and ran on them."""

from collections import Counter
from collections.abc import Iterator

from penstock.simulate.traces.files import Row, Table


def used_rows(table: Table, devices: int, skipped: Counter[str], duration: int | None = None) -> Iterator[Row]:
    """Rows with devices and, where a column for it is given, a run time; the others are counted by reason."""
    for row in table.rows():
        if row.count(devices, at_least=0) == 0:
            skipped["no GPU"] += 1
        elif duration is not None and row.number(duration) <= 0:
            skipped["no run time"] += 1
        else:
            yield row
