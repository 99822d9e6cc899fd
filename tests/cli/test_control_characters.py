"""A job's output does nothing to the terminal of whoever reads it."""

import io
import itertools
import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.jobs import logs
from penstock.cli.terminal.console import PlainConsole
from penstock.cli.terminal.control_characters import PlainStream, plain_text
from penstock.client import Client
from penstock.client.http import LogPiece
from penstock.wire import LogPage

ATTACKS = {
    "title": "\x1b]0;root@prod\x07",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x1b\\",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "report": "\x1b[6n\x1b[c\x1b]11;?\x07",
    "clear": "\x1b[2J\x1b[H\x1bc",
    "colours": "\x1b[31;1mred\x1b[0m\x1b[38;2;1;2;3m",
    "device": "\x1bP+q544e\x1b\\\x1b_Ga=T;AAAA\x1b\\",
    "eight bits": "\x9b31m\x9d0;x\x07\x9c\x90q\x9c",
    "characters": "\x1b(0lqk\x1b(B\x0e\x0f\x08\x07\x00\x7f",
    "hidden": "visible\x1b[8mhidden\x1b[28m",
    "unfinished": "\x1b]0;never ends",
}
_OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@pytest.mark.parametrize("name", ATTACKS)
def test_a_terminal_gets_nothing_to_obey(name: str) -> None:
    shown = plain_text(f"before {ATTACKS[name]} after\r\n\tmore\n")
    assert not _OBEYED.search(shown)
    assert shown.startswith("before ")
    assert shown.endswith(" after\r\n\tmore\n")


def test_what_a_sequence_says_is_not_shown_as_text() -> None:
    assert plain_text("a\x1b[31mb\x1b[0mc\x1b]0;title\x07d") == "abcd"
    assert plain_text("größer 日本 ✓ 50%|███▌|\n") == "größer 日本 ✓ 50%|███▌|\n"


_TEXT = st.lists(st.one_of(st.sampled_from(list(ATTACKS.values())), st.text(max_size=5))).map("".join)


@given(_TEXT, st.lists(st.integers(0, 200)))
def test_pieces_show_what_the_whole_does_and_never_more(text: str, cuts: list[int]) -> None:
    stream, places = PlainStream(), sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    shown = [stream.feed(piece) for piece in pieces] + [stream.rest()]
    assert not _OBEYED.search("".join(shown))
    if "never ends" not in text:
        assert "".join(shown) == plain_text(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Reader(Client):
    """Output in two pieces, cut inside of a sequence."""

    def __init__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def logs(self, job_id: str, *, cursor: str | None = None, **_: Any) -> LogPage:  # noqa: ARG002
        text = {None: "one\x1b]0;ti", "1": "tle\x07two\n", "2": ""}[cursor]
        return LogPage(text=text, next="1" if cursor is None else "2", complete=True)

    def follow_logs(self, job_id: str, **_: Any) -> Any:  # noqa: ARG002
        return iter([LogPiece("one\x1b]0;ti", "1"), LogPiece("tle\x07two\n", "2")])

    def job(self, job_id: str) -> Any:  # noqa: ARG002
        return SimpleNamespace(reason="")


@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize(
    ("stdout", "raw", "shown"),
    [
        (Terminal, False, "onetwo\n"),
        (Terminal, True, "one\x1b]0;title\x07two\n"),
        (io.StringIO, False, "one\x1b]0;title\x07two\n"),
    ],
)
def test_logs_are_plain_on_a_terminal_and_as_they_are_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, following: bool, stdout: type[io.StringIO], raw: bool, shown: str
) -> None:
    screen = stdout()
    monkeypatch.setattr(logs, "connect", Reader)
    monkeypatch.setattr("sys.stdout", screen)
    logs.logs("j-1", following=following, raw=raw)
    assert screen.getvalue() == shown


def test_reasons_and_last_lines_are_plain() -> None:
    screen = Terminal()
    PlainConsole(file=screen, markup=False, highlight=False).print("reason: \x1b]0;root\x07\x1b[2Jdone")
    assert screen.getvalue() == "reason: done\n"
