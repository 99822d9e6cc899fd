"""One process: the reconcile loop in a thread, the API in front of it.

``python -m penstock.serve`` is what a client starts when it finds no server. Everything heavy is imported when
a server really starts.
"""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from penstock.client import Address, DataDir
from penstock.control import LogFormat, set_up
from penstock.core import InputError, PenstockError
from penstock.serve.assembly import Assembly, assembled
from penstock.serve.config import Config
from penstock.serve.heaps import limit_heaps
from penstock.serve.run_saving import runs_saved_at_the_end
from penstock.serve.settings import load_config
from penstock.serve.warm_up import load_loops

_log = logging.getLogger(__name__)
_LAST_PASS_S = 30.0
_LAST_ANSWERS_S = 10
"""How long requests may take that were under way when the server was told to stop."""
_LAST_THREADS_S = 5.0
"""How long threads of such requests may take once all else has ended."""
_MOST_SOCKET_MESSAGE = 1 << 20
_TURN_S = 0.001
"""How long a thread that computes lets others wait for the interpreter: a request changes threads several times."""


def serve(config: Config, *, on_ready: Callable[[Address], None] = lambda _: None) -> None:
    """Run the platform until SIGTERM or SIGINT. Jobs outlive it: the next server finds them where they are.

    Where they could not, because their agents end with this process's container, ``save_on_stop_s`` lets them save.
    """
    sys.setswitchinterval(_TURN_S)
    limit_heaps()
    data_dir = DataDir(config.data_dir)
    ready = threading.Event()
    with (
        _ended_in_time(ready), data_dir.held(), _listening(config, data_dir) as listener,
        assembled(config, data_dir) as parts,
    ):  # fmt: skip
        address = Address(
            pid=os.getpid(), host=config.host, port=listener.getsockname()[1], started_at=parts.journal.now(),
            certificate=str(config.tls_cert.absolute()) if config.tls_cert else "",
        )  # fmt: skip

        def listening() -> None:
            data_dir.publish(address)
            ready.set()
            on_ready(address)

        load_loops(config.policy)
        with (
            runs_saved_at_the_end(parts, config.save_on_stop_s),
            _reconciling(parts, config.every_s),
            parts.readings.running(),
            _job_objects(config, parts),
        ):
            _answer(config, parts, listener, listening)


@contextmanager
def _ended_in_time(ready: threading.Event) -> Iterator[None]:
    """End the process soon after a server that was ``ready``: Python would wait for every thread that is held."""
    code = 1
    try:
        yield
        code = 0
    except PenstockError as error:
        code = error.exit_code
        raise
    finally:
        if ready.is_set():
            end = threading.Timer(_LAST_THREADS_S, os._exit, (code,))
            end.daemon = True
            end.start()


def _job_objects(config: Config, parts: Assembly) -> AbstractContextManager[None]:
    """Jobs that are objects of a cluster, where the backend is one."""
    if config.backend != "kubernetes":
        return nullcontext()
    from penstock.serve.kubernetes.job_controller import job_objects

    return job_objects(config, parts.platform, parts.leader)


@contextmanager
def _listening(config: Config, data_dir: DataDir) -> Iterator[socket.socket]:
    """The protocol is named because asyncio sends small answers at once only where it reads TCP there.

    Otherwise the body of an answer waits some 40 ms until the client's kernel has acknowledged its headers.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            _bind(listener, config.host, config.port, data_dir.last_port())
        except OSError as error:
            raise InputError(
                f"{config.host}:{config.port} cannot be listened on: {error.strerror}", "an address that is free",
                "Use port 0 to take any free one",
            ) from None  # fmt: skip
        yield listener


def _bind(listener: socket.socket, host: str, port: int, last: int) -> None:
    """Any free port is best the one of last time: open pages and bookmarks find the server again."""
    try:
        listener.bind((host, port or last))
    except OSError:
        if port or not last:
            raise
        listener.bind((host, 0))


@contextmanager
def _reconciling(parts: Assembly, every_s: float) -> Iterator[None]:
    stop = threading.Event()
    loop = threading.Thread(target=parts.reconciler.run, args=(stop, every_s), name="reconcile", daemon=True)
    loop.start()
    if parts.notifier is not None:
        threading.Thread(target=parts.notifier.run, args=(stop,), name="notify", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        parts.reconciler.nudge()
        loop.join(_LAST_PASS_S)


def _answer(config: Config, parts: Assembly, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    import uvicorn

    from penstock.control import create_app
    from penstock.serve.dashboard import mount_dashboard
    from penstock.serve.http_protocol import http_protocol

    app = create_app(
        parts.platform, parts.metrics, max_body=config.max_body, requests_per_s=config.requests_per_s,
        burst=config.burst, max_streams=config.max_streams, max_streams_per_token=config.max_streams_per_token,
        open_metrics=config.open_metrics,
    )  # fmt: skip
    has_dashboard = mount_dashboard(app, parts.platform, config.data_dir, config.oidc)
    lifespan: Literal["on", "off"] = "on" if has_dashboard else "off"

    class Server(uvicorn.Server):
        """Tells open streams to end when it is told to stop, and says when it listens.

        The original raises the signal once more when it is done, which would end the process before we have tidied up.
        """

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def run(self, sockets: list[socket.socket] | None = None) -> None:
            """The original waits for every thread that a request holds, for as long as it is held."""
            loop = (self.config.get_loop_factory() or asyncio.new_event_loop)()
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self.serve(sockets))
            for task in (rest := asyncio.all_tasks(loop)):
                task.cancel()
            if rest:
                loop.run_until_complete(asyncio.wait(rest, timeout=_LAST_THREADS_S))
            loop.run_until_complete(loop.shutdown_asyncgens())

        def handle_exit(self, sig: int, frame: Any) -> None:
            parts.platform.stopping.set()
            super().handle_exit(sig, frame)

        async def on_tick(self, counter: int) -> bool:
            """A server whose database or cluster somebody else has claimed has nothing to say any more."""
            if parts.is_replaced:
                parts.platform.stopping.set()
                self.should_exit = True
            return await super().on_tick(counter)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

    settings = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=_LAST_ANSWERS_S, lifespan=lifespan,
        http=http_protocol(), ws_max_size=_MOST_SOCKET_MESSAGE, proxy_headers=bool(config.proxies),
        forwarded_allow_ips=list(config.proxies), ssl_certfile=config.tls_cert, ssl_keyfile=config.tls_key,
    )  # fmt: skip
    Server(settings).run(sockets=[listener])


def main(arguments: list[str] | None = None) -> int:
    """What a client runs in the background: 0 once it is stopped, else the exit code of the error."""
    set_up(LogFormat.TEXT)
    try:
        config = _parse(arguments)
        set_up(LogFormat.named(config.log_format))
        serve(config)
    except PenstockError as error:
        _log.error("%s", error)
        return error.exit_code
    except OSError as error:
        _log.error("the server cannot go on: %s", error)
        return 1
    return 0


def _parse(arguments: list[str] | None) -> Config:
    parser = argparse.ArgumentParser(prog="penstock.serve", description="Run a Penstock server.")
    parser.add_argument("--config", type=Path)
    for flag in ("data-dir", "host", "port", "database", "policy", "slot", "backend", "slots", "log-format",
                 "run-as", "jobs-dir", "tls-cert", "tls-key", "proxies"):  # fmt: skip
        parser.add_argument(f"--{flag}")
    parser.add_argument("--accept-shared-user", action="store_true", default=None)
    for switch in ("recover", "accept-loss"):
        parser.add_argument(f"--{switch}", action="store_true", default=None)
    given = vars(parser.parse_args(arguments))
    return load_config(given, file=given.pop("config"))
