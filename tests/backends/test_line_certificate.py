"""The line between agents and workers of other machines: encrypted, and only with the agent whose address it is."""

import asyncio
import socket
import stat
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.backends.agent import worker_lines
from penstock.backends.agent.host_line import _opened
from penstock.backends.agent.line_certificate import LineCertificate
from penstock.backends.agent.meeting_stores import MeetingStores
from penstock.backends.agent.worker_lines import WorkerLines
from penstock.backends.testing import until
from penstock.core import AGENT_MESSAGES, WORKER_MESSAGES, AgentAddress, Bye, FinishOrder, Hello, InputError
from penstock.runtime.agent.link import _waiting
from tests.tools.coroutines import run

OTHER = "0" * 64
HELLO = WORKER_MESSAGES.encode(Hello(worker="w0", pid=1, secret="open sesame"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> LineCertificate:
    return LineCertificate.of(tmp_path_factory.mktemp("state"))


def test_a_platform_has_one_certificate_which_only_its_user_reads(certificate: LineCertificate) -> None:
    assert LineCertificate.of(certificate.file.parent) == certificate
    assert stat.S_IMODE(certificate.file.stat().st_mode) == 0o600


def test_without_openssl_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="encrypt = false"):
        LineCertificate.of(tmp_path)


def test_a_worker_and_its_agent_talk_and_strangers_in_between_hear_nothing(certificate: LineCertificate) -> None:
    heard: list[str] = []

    async def talk() -> tuple[AgentAddress, bytes]:
        lines = WorkerLines(
            "open sesame", MeetingStores(), hear=lambda _, said: heard.append(type(said).__name__), doubt=print
        )
        address = await lines.listen(AgentAddress(host="127.0.0.1"), certificate)
        answer = await asyncio.to_thread(worker, address, lines, asyncio.get_running_loop())
        with pytest.raises(ConnectionError, match="another certificate"):
            await asyncio.to_thread(replace(address, pin=OTHER).connect, 5.0)
        with pytest.raises(ConnectionError, match="another certificate"):
            await _opened(replace(address, pin=OTHER))
        _, host = await _opened(address)
        host.close()
        await host.wait_closed()
        lines.close()
        return address, answer

    def worker(address: AgentAddress, lines: WorkerLines, loop: asyncio.AbstractEventLoop) -> bytes:
        with address.connect(5.0) as line:
            line.sendall(HELLO + WORKER_MESSAGES.encode(Bye()))
            until(lambda: len(heard) == 2, "the agent to hear")
            loop.call_soon_threadsafe(lines.send, "w0", FinishOrder())
            return _waiting(line)

    address, answer = run(talk())
    assert heard == ["Hello", "Bye"]
    assert answer == AGENT_MESSAGES.encode(FinishOrder())
    assert AgentAddress.parse(str(address)) == address
    assert str(address).startswith("tls://127.0.0.1:")


@pytest.mark.parametrize("encrypted", [True, False])
def test_connections_without_a_hello_are_bounded_and_keep_no_worker_out(
    certificate: LineCertificate, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    monkeypatch.setattr(worker_lines, "MOST_SILENT", 5)
    monkeypatch.setattr(worker_lines, "MOST_SILENT_OF_ONE", 3)
    heard: list[str] = []

    async def talk() -> None:
        lines = WorkerLines("open sesame", MeetingStores(), hear=lambda who, _: heard.append(who), doubt=print)
        address = await lines.listen(AgentAddress(host="127.0.0.1"), certificate if encrypted else None)
        await asyncio.to_thread(strangers, address, lines)
        lines.close()

    def strangers(address: AgentAddress, lines: WorkerLines) -> None:
        with ExitStack() as opened:
            silent = [opened.enter_context(connected(address, host)) for host in (1, 1, 1, 1, 2, 2, 3)]
            assert [is_closed(line) for line in silent[:2]] == [True, True]
            assert list(lines._silent.values()) == [f"127.0.0.{host}" for host in (1, 1, 2, 2, 3)]
            with address.connect(5.0) as worker:
                worker.sendall(HELLO)
                until(lambda: heard == ["w0"], "the agent to hear")

    run(talk())


def connected(address: AgentAddress, host: int) -> socket.socket:
    """A connection from one of the addresses of this machine, on which nothing is said."""
    return socket.create_connection((address.host, address.port), 5.0, source_address=(f"127.0.0.{host}", 0))


def is_closed(line: socket.socket) -> bool:
    line.settimeout(10.0)
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def test_a_hello_is_read_no_further_than_a_hello_is_long() -> None:
    async def talk() -> bytes:
        lines = WorkerLines("open sesame", MeetingStores(), hear=print, doubt=print)
        address = await lines.listen(AgentAddress(host="127.0.0.1"))
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"x" * 20_000)
        answer = await reader.readline()
        writer.close()
        lines.close()
        return answer

    assert b"a hello of more than 16384 bytes" in run(talk())
