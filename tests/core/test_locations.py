"""Paths are meant from somewhere, URLs stand for themselves."""

from pathlib import Path

import pytest

from penstock.core import is_url, located


@pytest.mark.parametrize("location", ["s3://bucket/job", "gs://b", "abfs://c@account/x", "file:///data"])
def test_urls_stand_for_themselves(location: str) -> None:
    assert is_url(location)
    assert located(location, Path("/base")) == location


@pytest.mark.parametrize(("location", "seen"), [("saved", "/base/saved"), ("/data", "/data"), ("s3:/x", "/base/s3:/x")])
def test_paths_are_meant_from_their_base(location: str, seen: str) -> None:
    assert not is_url(location)
    assert located(location, Path("/base")) == seen
