"""Environments and limits in a job file: what is understood, what is refused, and what is written back."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core import InputError, Mount, ResourceLimits, build, plain
from penstock.core import Launch as CoreLaunch
from penstock.spec import JobFile, dump_yaml, load_job_file, parse_job
from penstock.spec.documents import parse_yaml

GOOD = {"command": "python train.py", "work": 5}


def with_environment(**environment: object) -> JobFile:
    return parse_job({**GOOD, "environment": environment})


def test_an_image_with_mounts_is_a_container() -> None:
    container = with_environment(image="pytorch/pytorch:2.8.0", mounts=["/data", "/a:/b:ro", "/c:/d:rw"]).environment
    assert container.container is not None
    assert container.container.image == "pytorch/pytorch:2.8.0"
    assert container.container.mounts == (
        Mount(source="/data", target="/data"),
        Mount(source="/a", target="/b", read_only=True),
        Mount(source="/c", target="/d"),
    )
    assert with_environment(requirements=["numpy"]).environment.container is None


@pytest.mark.parametrize(
    ("setup", "script"),
    [("make", "make"), (["make", "make install"], "make\nmake install"), ("a\nb\n", "a\nb")],
)
def test_setup_is_lines_of_a_shell(setup: object, script: str) -> None:
    assert with_environment(setup=setup).environment.setup == script


@pytest.mark.parametrize(
    ("text", "amount"), [("8GB", 8 * 10**9), ("8G", 8 * 10**9), ("1.5GiB", 3 * 2**29), ("512Mi", 2**29)]
)
def test_memory_has_a_unit_and_comes_back_as_it_was(text: str, amount: int) -> None:
    found = parse_job({**GOOD, "limits": {"memory": text, "cpus": "2"}})
    assert found.limits.resources == ResourceLimits(memory_bytes=amount, cpus=2.0)
    assert parse_job(parse_yaml(dump_yaml(found), "again").values).limits == found.limits


def test_limits_are_for_each_device() -> None:
    assert ResourceLimits(memory_bytes=100, cpus=0.5).of(3) == ResourceLimits(memory_bytes=300, cpus=1.5)
    assert not ResourceLimits().of(3).any


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"environment": {"requirements": ["a"], "conda": "b"}}, "environment.conda: both requirements and conda"),
        ({"environment": {"conda": "b", "image": "c"}}, "environment.image: both conda and image"),
        ({"environment": {"mounts": ["/data"]}}, "environment.mounts: mounts without an image"),
        ({"environment": {"image": "a b"}}, "environment.image: 'a b' is not an image"),
        ({"environment": {"image": "--privileged"}}, "'--privileged' is not an image"),
        ({"environment": {"image": "a", "mounts": ["/a:b"]}}, "environment.mounts: '/a:b' is not a mount"),
        ({"environment": {"image": "a", "mounts": [":/b"]}}, "':/b' is not a mount"),
        ({"environment": {"image": "a", "mounts": ["/a:/b:/c"]}}, "'/a:/b:/c' is not a mount"),
        ({"environment": {"setup": []}}, "environment.setup"),
        ({"limits": {"memory": 8}}, "limits.memory: 8 is not an amount of memory"),
        ({"limits": {"memory": "8 apples"}}, "limits.memory: '8 apples' is not a size"),
        ({"limits": {"memory": "1KB"}}, "limits.memory: 1KB of memory"),
        ({"limits": {"cpus": 0}}, "limits.cpus: 0 is not a number of processors"),
        ({"limits": {"cpus": "nan"}}, "limits.cpus: 'nan' is not a number of processors"),
        ({"image": "a"}, "Did you mean 'environment.image'?"),
        ({"memory": "8GB"}, "Did you mean 'limits.memory'?"),
    ],
)
def test_what_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_job({**GOOD, **values})
    assert complaint in str(refused.value)


def test_paths_are_meant_from_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies: [python]\n")
    file = tmp_path / "job.yaml"
    file.write_text("command: x\nwork: 5\nenvironment: {conda: environment.yml}\n")
    assert load_job_file(file).environment.conda == str(tmp_path / "environment.yml")
    file.write_text("command: x\nwork: 5\nenvironment: {conda: torch}\n")
    assert load_job_file(file).environment.conda == "torch"
    file.write_text("command: x\nwork: 5\nenvironment: {image: a.sif, mounts: ['data:/data']}\n")
    assert load_job_file(file).environment.image == str(tmp_path / "a.sif")
    assert load_job_file(file).environment.mounts == (f"{tmp_path}/data:/data",)
    file.write_text("command: x\nwork: 5\nenvironment: {conda: gone.yml}\n")
    with pytest.raises(InputError, match=r"environment\.conda: there is no file"):
        load_job_file(file)


def test_other_software_and_other_limits_are_another_job(tmp_path: Path) -> None:
    def fingerprint(**values: object) -> str:
        return parse_job({**GOOD, **values}).fingerprint()

    bare = fingerprint()
    assert bare == fingerprint(environment={"env": {}})
    conda, image, setup = ({"conda": "a"}, {"image": "a"}, {"setup": "a"})
    kinds = [bare, fingerprint(environment=conda), fingerprint(environment=image), fingerprint(environment=setup)]
    kinds += [fingerprint(limits={"cpus": 1}), fingerprint(environment={"image": "b"})]
    assert len(set(kinds)) == len(kinds)


def test_a_launch_with_a_container_is_read_as_it_was_written() -> None:
    container = with_environment(image="a", mounts=["/a:/b:ro"]).environment.container
    launch = CoreLaunch(
        run_id="r", job_id="j", command=("x",), workers=(), container=container, limits=ResourceLimits(cpus=1.0)
    )
    assert build(CoreLaunch, plain(launch)) == launch
