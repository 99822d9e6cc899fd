"""Environments are built once, whole, by one builder at a time, from real packages made here."""

import multiprocessing
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.backends.environments.python_environments import EnvironmentBuilder, PythonEnvironment
from penstock.core import InputError


def make_wheel(folder: Path, version: str = "1.0", value: int = 1) -> Path:
    """A package with one module and one command, by hand: no network, no build tools."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"tinything-{version}-py3-none-any.whl"
    info = f"tinything-{version}.dist-info"
    files = {
        "tinything.py": f"VALUE = {value}\n\ndef main():\n    print('tiny', VALUE)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinything\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny = tinything:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, content)
    return wheel


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def built(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.is_dir())


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, PythonEnvironment]:
    """One environment that several tests look at."""
    folder = tmp_path_factory.mktemp("environments")
    wheel = make_wheel(folder / "wheels")
    return folder / "cache", wheel, EnvironmentBuilder(folder / "cache").build([str(wheel)])


def test_without_requirements_it_is_our_own_interpreter(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing yet\n\n")
    builder = EnvironmentBuilder(tmp_path / "cache")

    for nothing in (None, [], [" "], "empty.txt"):
        assert builder.build(nothing, base=tmp_path) == PythonEnvironment(sys.executable)
    assert not (tmp_path / "cache").exists()


def test_packages_and_their_commands_work(shared: tuple[Path, Path, PythonEnvironment]) -> None:
    _, _, environment = shared

    assert output(environment.python, "-c", "import tinything; print(tinything.VALUE)") == "1"
    assert output(str(Path(environment.python).parent / "tiny")) == "tiny 1"


def test_what_the_platform_has_installed_is_visible_underneath(shared: tuple[Path, Path, PythonEnvironment]) -> None:
    _, _, environment = shared

    assert output(environment.python, "-c", "import numpy, penstock; print(penstock.__name__)") == "penstock"


def test_the_same_requirements_are_not_built_again(shared: tuple[Path, Path, PythonEnvironment]) -> None:
    cache, wheel, environment = shared
    stamp = Path(environment.python).lstat().st_ctime_ns

    assert EnvironmentBuilder(cache).build([str(wheel)]) == environment
    assert Path(environment.python).lstat().st_ctime_ns == stamp
    assert built(cache) == [environment.prefix]


def test_a_process_finds_the_environment_first(shared: tuple[Path, Path, PythonEnvironment]) -> None:
    _, _, environment = shared

    variables = environment.variables({"PATH": "/usr/bin", "HOME": "/root"})

    assert variables == {
        "PATH": f"{environment.prefix}/bin{os.pathsep}/usr/bin",
        "VIRTUAL_ENV": str(environment.prefix),
    }


def test_other_content_is_another_environment(tmp_path: Path, shared: tuple[Path, Path, PythonEnvironment]) -> None:
    cache, _, first = shared
    changed = make_wheel(tmp_path / "wheels", value=2)
    (tmp_path / "inner.txt").write_text(f"{changed}\n")
    (tmp_path / "requirements.txt").write_text("-r inner.txt  # the rest\n")

    second = EnvironmentBuilder(cache).build("requirements.txt", base=tmp_path)

    assert second.prefix != first.prefix
    assert output(second.python, "-c", "import tinything; print(tinything.VALUE)") == "2"


def test_a_failure_shows_pips_last_lines_and_leaves_nothing(tmp_path: Path) -> None:
    builder = EnvironmentBuilder(tmp_path / "cache")

    with pytest.raises(
        InputError, match=r"could not be installed(?s:.*)No matching distribution found for no-such-thing"
    ):
        builder.build(["no-such-thing==9"])
    assert built(tmp_path / "cache") == []


def test_leftovers_of_a_crash_are_swept_and_do_not_count(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    cache = tmp_path / "cache"
    environment = EnvironmentBuilder(cache).build([str(wheel)])
    assert environment.prefix is not None
    half_built = environment.prefix.rename(f"{environment.prefix}.building-99999999")
    (half_built / "bin" / "tiny").unlink()

    again = EnvironmentBuilder(cache).build([str(wheel)])

    assert output(str(Path(again.python).parent / "tiny")) == "tiny 1"
    assert built(cache) == [again.prefix]


def _build(cache: Path, wheel: Path, results: "multiprocessing.Queue[str]") -> None:
    results.put(EnvironmentBuilder(cache).build([str(wheel)]).python)


def test_two_builders_at_once_build_it_once(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[str] = context.Queue()
    builders = [context.Process(target=_build, args=(tmp_path / "cache", wheel, results)) for _ in range(3)]
    for builder in builders:
        builder.start()
    found = {results.get(timeout=60) for _ in builders}
    for builder in builders:
        builder.join(timeout=60)

    assert len(found) == 1
    assert len(built(tmp_path / "cache")) == 1
    assert output(str(Path(found.pop()).parent / "tiny")) == "tiny 1"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="environments cannot be kept in"):
        EnvironmentBuilder(tmp_path / "file" / "cache").build(["numpy"])


def test_a_missing_requirements_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.txt cannot be read"):
        EnvironmentBuilder(tmp_path).build("gone.txt", base=tmp_path)
