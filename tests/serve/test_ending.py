"""A server that is told to stop ends, whatever its requests wait for."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from penstock.client import Client, DataDir
from tests.control.serving import end_everything_on, until

HELD = """
import sys, time
from penstock.control.platform.saved_files import SavedFiles
from penstock.serve import server

def files(self, job_id, who, path=""):
    print("held", flush=True)
    time.sleep(1000)

SavedFiles.files = files
server._LAST_ANSWERS_S = server._LAST_THREADS_S = 0.2
sys.exit(server.main(["--data-dir", sys.argv[1], "--slots", "1"]))
"""


def test_a_request_that_holds_a_thread_for_ever_does_not_keep_the_server(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    process = subprocess.Popen([sys.executable, "-c", HELD, str(data_dir.path)], stdout=subprocess.PIPE, env=os.environ)
    try:
        address = until(data_dir.address, "the server", 60.0)
        token = data_dir.owner_token()
        with Client(address.url, token) as client:
            until(client.version, "its answers", 60.0)
        with socket.create_connection((address.host, address.port)) as line:
            line.sendall(
                f"GET /v1/jobs/j-22222222/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
        end_everything_on(data_dir.path)
