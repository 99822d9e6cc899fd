"""Where the API server asks for a container's output: the one page of a kubelet that people meet, by `kubectl logs`."""

import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.tools.kubernetes.pod_runner import PodRunner

LogOf = Callable[[str, str, str], "tuple[Path, PodRunner] | None"]


class KubeletServer:
    def __init__(self, certificate: str, log_of: LogOf) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                serve_log(self, log_of)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def serve_log(request: BaseHTTPRequestHandler, log_of: LogOf) -> None:
    """``/containerLogs/NAMESPACE/POD/CONTAINER``, with ``follow`` until the pod has ended."""
    asked = urlsplit(request.path)
    parts = asked.path.strip("/").split("/")
    found = log_of(*parts[1:]) if parts[0] == "containerLogs" and len(parts) == 4 else None
    if found is None:
        request.send_error(404)
        return
    log, runner = found
    request.send_response(200)
    request.send_header("Content-Type", "text/plain")
    request.end_headers()
    follow = "follow" in parse_qs(asked.query)
    with log.open("rb") as text:
        while True:
            ended = not runner.thread.is_alive()
            request.wfile.write(text.read())
            request.wfile.flush()
            if not follow or ended:
                return
            time.sleep(0.05)
