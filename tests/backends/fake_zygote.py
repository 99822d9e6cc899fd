"""The zygote's protocol without torch: forks scripts on request, tells their start and their end."""

import json
import os
import runpy
import select
import signal
import sys
from typing import Any


def tell(**event: Any) -> None:
    os.write(TOLD, json.dumps(event).encode() + b"\n")


def fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    for name, target in (("stdout", 1), ("stderr", 2)):
        handle = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, target)
        os.close(handle)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    sys.stdout.flush()
    os._exit(code)


def reap(running: dict[int, str]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        tell(event="exited", id=running.pop(pid), code=max(code, 0), signal=-code if code < 0 else None)


def main() -> None:
    running: dict[int, str] = {}
    rest = b""
    while True:
        reap(running)
        if not select.select([0], [], [], 0.02)[0]:
            continue
        data = os.read(0, 65536)
        *lines, rest = (rest + data).split(b"\n")
        for request in map(json.loads, lines):
            if request["op"] == "quit":
                return
            pid = fork(request)
            running[pid] = request["id"]
            tell(event="started", id=request["id"], pid=pid)
        if not data:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            return


TOLD = os.dup(1)
main()
