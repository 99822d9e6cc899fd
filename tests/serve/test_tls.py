"""A server with a certificate of its own: who trusts it is answered, who does not sends nothing; named proxies."""

import contextlib
import os
import socket
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trustme

from penstock.client import Client, DataDir, ensure_server, reach
from penstock.core import InputError
from penstock.serve import Config
from penstock.wire import UnavailableError
from tests.control.serving import end_everything_on
from tests.tools import commandline


@dataclass(frozen=True)
class Certified:
    """A running server, and the files of the authority behind its certificate and of another."""

    client: Client
    data: Path
    authority: Path
    stranger: Path
    token: str


@dataclass(frozen=True)
class Files:
    """A certificate for ``gpus.example.org`` and 127.0.0.1, its key, and the authority that signed it."""

    cert: Path
    key: Path
    authority: Path


def certificate(folder: Path) -> Files:
    authority = trustme.CA()
    issued = authority.issue_cert("gpus.example.org", "127.0.0.1")
    files = Files(folder / "server.pem", folder / "server.key", folder / "authority.pem")
    issued.cert_chain_pems[0].write_to_path(files.cert)
    issued.private_key_pem.write_to_path(files.key)
    authority.cert_pem.write_to_path(files.authority)
    return files


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    folder = tmp_path_factory.mktemp("tls")
    files, stranger = certificate(folder), folder / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    options = ["--slots", "1", "--tls-cert", str(files.cert), "--tls-key", str(files.key), "--proxies", "127.0.0.0/8"]
    with ensure_server(folder / "data", options=options) as client:
        token = DataDir(folder / "data").owner_token() or ""
        yield Certified(client, folder / "data", files.authority, stranger, token)
    end_everything_on(folder / "data")


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_client_on_the_same_machine_trusts_the_very_certificate(certified: Certified) -> None:
    assert certified.client.url.startswith("https://127.0.0.1:")
    assert certified.client.jobs().jobs == []


def test_others_name_the_authority(certified: Certified) -> None:
    with (
        environment(
            PENSTOCK_SERVER=certified.client.url, PENSTOCK_TOKEN=certified.token, PENSTOCK_CA=str(certified.authority)
        ),
        reach() as client,
    ):
        assert client.nodes()


@pytest.mark.parametrize("ca", ["stranger", "none"])
def test_whoever_does_not_trust_it_sends_nothing(certified: Certified, ca: str) -> None:
    trust = {"PENSTOCK_CA": str(certified.stranger)} if ca == "stranger" else {}
    with (
        environment(PENSTOCK_SERVER=certified.client.url, PENSTOCK_TOKEN=certified.token, **trust),
        reach() as client,
        pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.nodes()


def test_the_command_line_takes_the_authority(certified: Certified) -> None:
    variables = {"PENSTOCK_SERVER": certified.client.url, "PENSTOCK_TOKEN": certified.token}
    trusted = commandline.penstock("--ca", str(certified.authority), "nodes", env=variables)
    assert trusted.returncode == 0, trusted.stderr
    assert commandline.penstock("nodes", env=variables).returncode != 0
    assert "cannot be used" in commandline.penstock("--ca", "/nowhere.pem", "nodes", env=variables).stderr


def trusting(certified: Certified) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certified.authority)


def test_the_cookie_is_for_tls_only(certified: Certified) -> None:
    with httpx.Client(base_url=certified.client.url, verify=trusting(certified), trust_env=False) as http:
        answer = http.post("/ui/sign-in", data={"token": certified.token})
        assert answer.status_code == 303
        assert "secure" in answer.headers["set-cookie"].lower()


def test_old_protocols_are_refused(certified: Certified) -> None:
    address = urlsplit(certified.client.url)
    for newest, spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = trusting(certified)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = newest
        context.set_ciphers("ALL:@SECLEVEL=0")
        place = (str(address.hostname), address.port or 0)
        with (
            socket.create_connection(place, timeout=20) as line,
            contextlib.nullcontext() if spoken else pytest.raises(ssl.SSLError),
        ):
            context.wrap_socket(line, server_hostname=address.hostname).close()


def test_a_named_proxy_says_where_a_request_came_from(certified: Certified) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9", "Authorization": f"Bearer {certified.token}"}
    with httpx.Client(base_url=certified.client.url, verify=trusting(certified), trust_env=False) as http:
        assert http.put("/v1/quotas/nobody", json={"devices": 4}, headers=headers).status_code == 200
    assert certified.client.audit(limit=1).entries[0].address == "203.0.113.9"


def test_nobody_else_is_believed(tmp_path: Path) -> None:
    with ensure_server(tmp_path / "data", options=["--slots", "1"]) as client:
        token = DataDir(tmp_path / "data").owner_token()
        headers = {"X-Forwarded-For": "203.0.113.9", "Authorization": f"Bearer {token}"}
        answer = httpx.put(f"{client.url}/v1/quotas/nobody", json={"devices": 4}, headers=headers, trust_env=False)
        assert answer.status_code == 200
        assert client.audit(limit=1).entries[0].address == "127.0.0.1"
    end_everything_on(tmp_path / "data")


def test_a_certificate_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    other = certificate(tmp_path / "other") if (tmp_path / "other").mkdir() is None else files
    for cert, key in ((files.cert, None), (None, files.key), (files.cert, other.key), (files.key, files.key)):
        with pytest.raises(InputError):
            Config(data_dir=tmp_path, tls_cert=cert, tls_key=key)
    with pytest.raises(InputError, match="proxies"):
        Config(data_dir=tmp_path, proxies=("proxy.example.org",))
