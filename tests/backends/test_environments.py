"""Environments of jobs on the machine at hand: setup commands, conda, containers, and what is refused."""

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.backends import LocalBackend, PreparationError, fake_devices
from penstock.backends.agent.containers import ContainerLaunch, remove_run
from penstock.backends.environments.package_installer import Packages, install
from penstock.core import INTERPRETER, Container, Launch, Mount, Recipe, ResourceLimits, SecretUse
from tests.backends.fake_tools import calls, fake_conda, fake_docker, silent_runtime
from tests.backends.watching import make_launch, output, wait_for_end, wait_for_output


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first place where programs are found, and no other has conda, uv or a runtime."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture
def backend(state_dir: Path) -> LocalBackend:
    return LocalBackend(state_dir, fake_devices(2))


def recipe(folder: Path, **more: object) -> Recipe:
    log = str(folder / "preparation.log")
    return replace(
        Recipe(command=(INTERPRETER, "train.py"), working_dir=str(folder), preparation_log=log),
        **more,  # type: ignore[arg-type]
    )


def told(*_: str) -> None:
    """Nobody listens."""


def test_setup_commands_are_run_once_in_an_environment_of_their_own(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    script = "echo run >> runs.txt\npython -c 'import sys; print(sys.prefix)' > prefix.txt\ncommand -v pip > pip.txt"
    asked, heard = recipe(tmp_path, setup=script, env=(("MINE", "yes"),)), list[str]()
    ready = backend.prepare(asked, heard.append)
    prefix = (tmp_path / "prefix.txt").read_text().strip()
    assert heard == ["running its setup commands"]
    assert prefix.startswith(str(backend.state_dir / "environments"))
    assert ready.command[0] == f"{prefix}/bin/python"
    assert (tmp_path / "pip.txt").read_text().strip() == f"{prefix}/bin/pip", "pip would install into the server's"
    assert dict(ready.env)["VIRTUAL_ENV"] == prefix
    assert dict(ready.env)["MINE"] == "yes"
    assert "+ echo run" in (tmp_path / "preparation.log").read_text()
    assert backend.prepare(asked, told) == ready
    assert (tmp_path / "runs.txt").read_text() == "run\n", "it was run twice"
    backend.prepare(recipe(tmp_path, setup=script + "\ntrue"), told)
    assert (tmp_path / "runs.txt").read_text() == "run\nrun\n", "other commands are another environment"


def test_setup_commands_that_fail_are_told_and_tried_again_by_the_next_job(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    asked = recipe(tmp_path, setup="echo first\ntest -e ready || { echo not yet; exit 3; }\necho after")
    with pytest.raises(PreparationError, match="the setup commands failed") as failed:
        backend.prepare(asked, told)
    assert "not yet" in failed.value.tail
    assert "after" not in failed.value.tail
    (tmp_path / "ready").touch()
    backend.prepare(asked, told)
    assert "after" in (tmp_path / "preparation.log").read_text()


def test_setup_commands_know_secrets_and_the_log_does_not(state_dir: Path, bin_dir: Path, tmp_path: Path) -> None:
    backend = LocalBackend(
        state_dir, fake_devices(1), secret_values=lambda _, names: dict.fromkeys(names, "open-sesame")
    )
    uses = (SecretUse(variable="TOKEN", secret="token"), SecretUse(variable="KEY", secret="key", as_file=True))
    backend.prepare(recipe(tmp_path, setup='echo "$TOKEN" > token.txt; echo "$TOKEN${KEY:-none}"', secrets=uses), told)
    assert (tmp_path / "token.txt").read_text() == "open-sesame\n"
    log = (tmp_path / "preparation.log").read_text()
    assert "***none" in log
    assert "open-sesame" not in log


def test_a_conda_environment_by_name_brings_its_python_and_its_activation(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    conda = fake_conda(bin_dir)
    ready = backend.prepare(recipe(tmp_path, conda="there", setup="echo $CONDA_PREFIX >> where.txt"), told)
    prefix = str(bin_dir / "envs" / "there")
    assert dict(ready.env)["CONDA_PREFIX"] == prefix
    assert dict(ready.env)["FROM_HOOK"] == "yes"
    assert dict(ready.env)["PATH"].startswith(f"{prefix}/bin:")
    assert ready.command[0] == sys.executable, "as its own Python says"
    backend.prepare(recipe(tmp_path, conda="there", setup="echo $CONDA_PREFIX >> where.txt"), told)
    assert (tmp_path / "where.txt").read_text() == f"{prefix}\n"
    assert [call[:3] for call in calls(conda)] == [["run", "-n", "there"]] * 2
    with pytest.raises(PreparationError, match="the conda environment other cannot be used: EnvironmentLocation"):
        backend.prepare(recipe(tmp_path, conda="other"), told)


def test_a_conda_environment_of_a_file_is_built_once_for_its_content(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    conda, file = fake_conda(bin_dir), tmp_path / "environment.yml"
    file.write_text("dependencies: [python]\n")
    first = backend.prepare(recipe(tmp_path, conda=str(file)), told)
    assert backend.prepare(recipe(tmp_path, conda=str(file)), told) == first
    assert len([call for call in calls(conda) if call[0] == "env"]) == 1
    assert "made it" in (tmp_path / "preparation.log").read_text()
    file.write_text("dependencies: [python, gone]\n")
    with pytest.raises(PreparationError, match="could not be built") as failed:
        backend.prepare(recipe(tmp_path, conda=str(file)), told)
    assert failed.value.tail == ("ResolvePackageNotFound: gone",)


def test_without_conda_or_a_runtime_they_are_refused(backend: LocalBackend, bin_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(PreparationError, match="conda is not installed on this machine"):
        backend.prepare(recipe(tmp_path, conda="there"), told)
    asked = recipe(tmp_path, container=Container(image="a"))
    with pytest.raises(PreparationError, match="no runtime for containers is installed on this machine"):
        backend.prepare(asked, told)
    silent_runtime(bin_dir)
    with pytest.raises(PreparationError, match=r"answers on this machine \(docker: Cannot connect to the daemon\)"):
        backend.prepare(asked, told)
    fake_docker(bin_dir, "podman")
    assert backend.prepare(asked, told).container == Container(image="a", runtime=str(bin_dir / "podman"))


def test_an_image_is_pulled_once_and_setup_makes_another_of_it(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    docker = fake_docker(bin_dir)
    container = Container(image="torch:2", mounts=(Mount(source="/data", target="/d", read_only=True),))
    asked = recipe(tmp_path, container=container, setup="echo inside > made.txt")
    ready = backend.prepare(asked, told)
    assert ready.command == ("python", "train.py"), "the image brings its own"
    assert ready.container is not None
    assert ready.container.image.startswith("penstock-set-up:")
    assert ready.container.mounts == container.mounts
    assert (tmp_path / "made.txt").read_text() == "inside\n"
    assert backend.prepare(asked, told) == ready
    verbs = [call[0] for call in calls(docker)]
    assert (verbs.count("pull"), verbs.count("run"), verbs.count("commit")) == (1, 1, 1)
    with pytest.raises(PreparationError, match="the image gone could not be pulled") as failed:
        backend.prepare(recipe(tmp_path, container=Container(image="gone")), told)
    assert failed.value.tail == ("manifest unknown",)


def test_workers_run_in_containers_with_their_variables_and_not_the_machines(
    backend: LocalBackend, bin_dir: Path, tmp_path: Path
) -> None:
    docker = fake_docker(bin_dir)
    print_all = "import os; print(sorted(os.environ)); print(os.environ['RANK'], os.environ['MINE'], os.getcwd())"
    launch = make_launch(("python", "-c", print_all), 2)
    launch = replace(
        launch, working_dir=str(tmp_path), env=(("MINE", "yes"),), limits=ResourceLimits(memory_bytes=2**30, cpus=1.5),
        container=Container(image="torch:2", runtime=str(docker), mounts=(Mount(source="/a", target="/b"),)),
    )  # fmt: skip
    backend.launch(launch)
    wait_for_end(backend, launch.run_id)
    said = output(backend, launch.run_id)
    assert f"[1] 1 yes {tmp_path}" in said
    assert "HOME" not in said
    assert "PENSTOCK_CHECKPOINT_DIR" in said
    first = next(call for call in calls(docker) if call[0] == "run")
    run_dir = str(backend.state_dir / "runs" / launch.run_id)
    for words in (f"{run_dir}:{run_dir}", f"{tmp_path}:{tmp_path}", "/a:/b", "--memory=1073741824b", "--cpus=1.5"):
        assert words in first
    assert first[first.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert first[-4:] == ["torch:2", "python", "-c", print_all]
    assert "yes" not in first, "values of variables are in no word"


def test_a_container_whose_client_was_killed_is_removed(backend: LocalBackend, bin_dir: Path, tmp_path: Path) -> None:
    docker = fake_docker(bin_dir)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('there'); time.sleep(600)"
    launch = replace(
        make_launch(("python", "-uc", code)), working_dir=str(tmp_path),
        container=Container(image="torch:2", runtime=str(docker)),
    )  # fmt: skip
    backend.launch(launch)
    wait_for_output(backend, launch.run_id, "there")
    backend.stop(launch.run_id, 0.05)
    wait_for_end(backend, launch.run_id)
    started = next(call for call in calls(docker) if call[0] == "run")
    assert ["rm", "--force", started[started.index("--name") + 1]] in calls(docker)


def container_of(runtime: str) -> ContainerLaunch:
    launch = Launch(
        run_id="r", job_id="j", command=("x",), workers=(), working_dir="/w", env=(("PATH", "/mine"),),
        container=Container(image="i.sif", runtime=runtime), limits=ResourceLimits(memory_bytes=10),
    )  # fmt: skip
    found = ContainerLaunch.of(launch, None)
    assert found is not None
    return found


def test_each_runtime_has_its_own_words_for_devices_and_variables() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "PATH": "/mine", "HOME": "/root", "RANK": "0"}
    docker, _ = container_of("/bin/docker").command("n", ["x"], env)
    assert docker[docker.index("--gpus") + 1] == '"device=GPU-1,GPU-2"'
    assert ("--env", "PATH") in set(itertools.pairwise(docker)), "the job's own word counts"
    assert "HOME" not in docker
    podman, _ = container_of("/bin/podman").command("n", ["x"], env)
    assert [word for word in podman if word.startswith("nvidia.com")] == [
        "nvidia.com/gpu=GPU-1",
        "nvidia.com/gpu=GPU-2",
    ]
    apptainer, around = container_of("/bin/apptainer").command("n", ["x"], env)
    assert apptainer == ["/bin/apptainer", "exec", "--cleanenv", "--nv", "--pwd", "/w", "--bind", "/w:/w", "i.sif", "x"]
    assert around["APPTAINERENV_RANK"] == "0"
    assert "APPTAINERENV_HOME" not in around


def test_what_an_agent_left_is_removed_by_its_label(bin_dir: Path) -> None:
    docker = bin_dir / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >> "$0.calls"\n[ "$1" = ps ] && echo abc\nexit 0\n')
    docker.chmod(0o755)
    remove_run(str(docker), "run-7")
    said = (bin_dir / "docker.calls").read_text().splitlines()
    assert said == ["ps --all --quiet --filter label=penstock.run=run-7", "rm --force abc"]


@pytest.mark.parametrize(
    ("resolved", "by_uv"), [("tinything==1.0", True), ("numpy==0.1\ntinything==1.0", False), ("", True)]
)
def test_uv_installs_what_is_not_there_and_leaves_other_versions_to_pip(
    bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resolved: str, by_uv: bool
) -> None:
    uv = bin_dir / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "$@" >> {bin_dir}/uv.calls\n'
        'if [ "$2" = compile ]; then while [ "$1" != --output-file ]; do shift; done\n'
        f"cat > \"$2\" <<'END'\n{resolved}\nEND\nfi\n"
        f'if [ "$2" = install ]; then for last; do :; done; cat "$last" > {bin_dir}/installed; fi\n'
    )
    uv.chmod(0o755)
    asked: list[list[str]] = []
    monkeypatch.setattr(
        "penstock.backends.environments.package_installer.run_tool", lambda command, *_: asked.append(list(command))
    )
    install(tmp_path, Packages(("tinything",), tmp_path, ("tinything",)), inherit=True)
    assert bool(asked) is not by_uv, "pip"
    assert (bin_dir / "installed").exists() is (by_uv and bool(resolved))
    if asked:
        assert asked[0][-1] == "tinything"
