"""The zygote's protocol without torch: forks scripts on request, each a child of the agent, and tells their start.

While the file that ``ZYGOTE_HOLD`` names exists it is busy, as if with its imports, and hears nothing.
"""

import json
import os
import runpy
import sys
import time
from typing import Any


def tell(**event: Any) -> None:
    os.write(TOLD, json.dumps(event).encode() + b"\n")


def fork(request: dict[str, Any]) -> int:
    pid_r, pid_w = os.pipe()
    if middle := os.fork():
        os.close(pid_w)
        os.waitpid(middle, 0)
        return int(os.read(pid_r, 32))
    if os.fork():
        os._exit(0)
    os.setpgid(0, 0)
    os.write(pid_w, str(os.getpid()).encode())
    for name, target in (("stdout", 1), ("stderr", 2)):
        handle = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, target)
        os.close(handle)
    os.environ.clear()
    os.environ.update(request["env"], FORKED_FROM=str(ZYGOTE))
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    sys.stdout.flush()
    os._exit(code)


def main() -> None:
    while os.path.exists(os.environ.get("ZYGOTE_HOLD", "")):
        time.sleep(0.01)
    rest = b""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for request in map(json.loads, lines):
            if request["op"] == "quit":
                return
            tell(event="started", id=request["id"], pid=fork(request))


TOLD = os.dup(1)
ZYGOTE = os.getpid()
main()
