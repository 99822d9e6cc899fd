"""A line of a log without what launchers put before it, and what that said: the rank, the host, the time."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.diagnose.signatures.literals import bounded

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIXES = tuple(
    re.compile(bounded(pattern))
    for pattern in (
        r"\[(?:default|rank|Rank )(?P<rank>\d+)\]:? ?",
        r"\[(?:[\w.-]+@)?\d+,(?:mpirank:)?(?P<rank>\d+)(?:,[\w.-]+)?\]<(?:stdout|stderr|stddiag)>: ?",
        r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[(?P<rank>\d+)\]<(?:stdout|stderr)>: ?",
        r"\((?:[\w.]+(?:\([^()]*\))? )?pid=\d+(?:, ip=(?P<node>[\d.]+))?\) ?",
        r"\[pod/[^\]]+\] ",
        r"(?:stdout|stderr)(?: [FP]|:) ?(?=\S)",
        r"[\w.-]*[-_]\d+\s+\| ?(?=\S)",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<node>[\w.-]+) (?!kernel)[\w./-]+(?:\[\d+\])?: (?=\S)",
        r"(?![\w.]*(?:Error|Exception|\.exceptions\.|\.so\b|_))(?P<node>[A-Za-z][\w.-]*\d[\w.-]*): (?=\S)(?!\d+:\d+)",
        r"(?P<node>\d{1,3}(?:\.\d{1,3}){3}): (?=\S)",
        r"\[(?P<rank>\d{1,5})\]:? (?!NCCL)",
        r" {0,4}(?P<rank>\d{1,5}): (?=\S|$)",
        r"w(?P<rank>\d+)\| ?",
        r">(?: ?>)* (?=\S)",
        r"\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:Z|[+-]\d\d:?\d\d)?\]?[ :]*",
        r"\[?(?:[EWIF])(?P<glog>\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)\s+\d+ (?=\S)",
        r"\[\s*(?P<uptime>\d+\.\d{3,6})\] ",
    )
)
_NCCL = re.compile(bounded(r"^(?P<node>[\w.-]+):\d+:\d+ \[(?P<device>\d+)\] "))
_ANYWHERE = re.compile(r"\[(?:PG [^\]]{0,80} )?Rank (?P<rank>\d+)\]|\brank[ :=]+(?P<named>\d+)\b", re.IGNORECASE)
_HOST = re.compile(r"\bon node (?P<node>[\w.-]+)")
_MOST_PREFIXES = 4
_TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
"""Quotation marks as a text processor sets them: a log that was pasted somewhere has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """What was said, and by whom and when as far as the line itself tells; ``at`` orders lines, it is no date."""

    text: str
    prefix: str = ""
    """What was taken off before the text."""
    rank: int | None = None
    node: str = ""
    device: str = ""
    at: float | None = None


def read_line(raw: str) -> LogLine:
    """A line parted into prefixes and text."""
    whole, found = plain(raw), dict[str, str]()
    text = whole
    for _ in range(_MOST_PREFIXES):
        for prefix in _PREFIXES:
            if match := prefix.match(text):
                found |= {key: value for key, value in match.groupdict().items() if value and key not in found}
                text = text[match.end() :]
                break
        else:
            break
    if match := _NCCL.match(text):
        found |= match.groupdict()
    if "node" not in found and (match := _HOST.search(text)):
        found |= match.groupdict()
    rank = found.get("rank") or _named_rank(text)
    device = f"GPU {found['device']}" if "device" in found else ""
    return LogLine(
        text=text,
        prefix=whole[: len(whole) - len(text)],
        rank=None if rank is None else int(rank),
        node=found.get("node", ""),
        device=device,
        at=_moment(found),
    )


def plain(raw: str) -> str:
    """A line without colours and with plain quotation marks."""
    return _COLOUR.sub("", raw).translate(_TYPOGRAPHIC).rstrip()


def bare(raw: str) -> str:
    """A line without its prefixes."""
    return read_line(raw).text


def _named_rank(text: str) -> str | None:
    match = _ANYWHERE.search(text)
    return None if match is None else match["rank"] or match["named"]


def _moment(found: dict[str, str]) -> float | None:
    if "time" in found:
        return _stamp(found["time"].replace("T", " ").replace(",", "."), "%Y-%m-%d %H:%M:%S")
    if "glog" in found:
        return _stamp(f"2000 {found['glog']}", "%Y %m%d %H:%M:%S")
    return float(found["uptime"]) if "uptime" in found else None


def _stamp(text: str, form: str) -> float | None:
    whole, _, part = text.partition(".")
    try:
        return datetime.strptime(whole, form).replace(tzinfo=UTC).timestamp() + float(f"0.{part or 0}")
    except ValueError:
        return None
