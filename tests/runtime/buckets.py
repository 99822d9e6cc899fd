"""A bucket of a real S3-compatible server in this process."""

import atexit
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

BUCKET = "checkpoints"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server of this process, and a fresh place in it."""

    env: dict[str, str]
    client: Any
    prefix: str

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    def names(self) -> set[str]:
        """The first word of every key below the place."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=self.prefix + "/").get("Contents", [])
        return {one["Key"].removeprefix(self.prefix + "/").split("/")[0] for one in found}

    def keys(self, below: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.prefix}/{below}").get("Contents", [])
        return [one["Key"] for one in found]

    def replace(self, key: str, change: Callable[[bytes], bytes]) -> None:
        content = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        self.client.put_object(Bucket=BUCKET, Key=key, Body=change(content))

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)


@cache
def _address() -> str:
    """One server for a process, up to its end: fsspec keeps what it has opened, with the address it was opened by.

    A fixture would not do. A worker that has nothing to do for a moment ends those of its session and makes new ones.
    """
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@pytest.fixture(scope="session")
def server() -> str:
    return _address()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    import boto3

    env = {**CREDENTIALS, "AWS_ENDPOINT_URL": server, "AWS_MAX_ATTEMPTS": "1"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return Bucket(env, client, f"jobs/{uuid.uuid4().hex}")
