"""A small mail server that takes everything it is sent."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class MailServer:
    """``mails`` are (recipient, text) in the order they came."""

    port: int = 0
    mails: list[tuple[str, str]] = field(default_factory=list)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        recipient = ""
        while line := (await reader.readline()).decode().strip():
            word = line.split(" ")[0].upper()
            if word == "RCPT":
                recipient = line.partition("<")[2].partition(">")[0]
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                self.mails.append((recipient, text))
            writer.write(b"221 bye\r\n" if word == "QUIT" else b"250 fine\r\n")
            if word == "QUIT":
                break
        writer.close()


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """One on a free port of this machine, in a thread."""
    server, loop, ready = MailServer(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        listening = await asyncio.start_server(server.converse, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        ready.set()
        async with listening:
            await stopped.wait()

    stopped = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()
