"""A worker that speaks the agent's protocol and trains nothing. Needs the standard library only.

It makes a step every 20 ms, meets its peers at every new world by way of the rendezvous (as files), and does what it is
told. What goes wrong, and when, comes from its environment. With ``OCCUPY`` it puts a mark for its device into that
directory and cannot start where it finds one; ``LEAVE_AFTER_S`` makes it slow to leave.
"""

import atexit
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

ME = os.environ["PENSTOCK_WORKER"]
TOTAL = int(os.environ.get("TOTAL", "100000"))


class Line:
    def __init__(self) -> None:
        agent = os.environ["PENSTOCK_AGENT"]
        scheme, _, place = agent.partition("://")
        self.pending = lambda: 0
        if place:
            host, _, port = place.partition("/")[0].rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
            if scheme == "tls":
                self.socket = encrypted(self.socket)
                self.pending = self.socket.pending
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(agent.removeprefix("unix:"))
        self.rest = b""

    def say(self, kind: str, **fields: Any) -> None:
        self.socket.sendall(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def heard(self, wait_s: float) -> list[dict[str, Any]]:
        if not select.select([self.socket], [], [], wait_s)[0]:
            return []
        data = self.socket.recv(65536)
        while self.pending():
            data += self.socket.recv(65536)
        if not data:
            sys.exit(9)  # the agent is gone
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def encrypted(line: socket.socket) -> Any:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(line)


def meet(line: Line, world: dict[str, Any]) -> list[dict[str, Any]]:
    """Wait for all members; a newer order calls it off."""
    if world["rendezvous"] == "agent:":
        return []  # on other machines there is nothing to wait for that training would need
    place = world["rendezvous"].removeprefix("file:")
    Path(f"{place}.{ME}").touch()
    while not all(Path(f"{place}.{member}").exists() for member in world["members"]):
        if newer := line.heard(0.005):
            return newer
    return []


def occupy(directory: str) -> None:
    mark = Path(directory) / os.environ["PENSTOCK_FAKE_DEVICE"]
    mark.touch(exist_ok=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    atexit.register(mark.unlink)
    atexit.register(time.sleep, float(os.environ.get("LEAVE_AFTER_S", "0")))


def main() -> None:
    if place := os.environ.get("OCCUPY"):
        occupy(place)
    if ME in os.environ.get("CRASH_AT_START", "").split(","):
        sys.exit("cannot start")
    line = Line()
    secret = Path(os.environ["PENSTOCK_SECRET_FILE"]).read_text()
    line.say("hello", worker=ME, pid=os.getpid(), elastic=True, version=1, secret=secret)
    if ME not in os.environ.get("NEVER_READY", "").split(","):
        line.say("ready", generation=int(os.environ["PENSTOCK_GENERATION"]))
    step, world, fresh = 0, None, False
    while step < TOTAL:
        orders = line.heard(0.02)
        while orders:
            order = orders.pop(0)
            if order["type"] == "world":
                world, fresh = order, True
                print("world", world["generation"], world["rank"], world["size"], *world["survivors"], flush=True)
                orders += meet(line, world)
            elif order["type"] == "leave":
                print("leaving", flush=True)
                return
            elif order["type"] == "suspend":
                if world and world["rank"] == 0:
                    line.say("suspended", step=step)
                return
        if world is None:
            continue
        step += 1
        if world["rank"] == 0:
            if fresh:
                line.say("joined", generation=world["generation"], pause_s=0.01)
            line.say("progress", step=step, total=TOTAL, loss=1.0 / step, samples_per_s=float("inf"))
        fresh = False
    line.say("bye")


main()
