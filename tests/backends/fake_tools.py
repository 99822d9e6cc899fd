"""Stand-ins for conda and for a runtime of containers: executables that write down their arguments and do as asked."""

import stat
import sys
from pathlib import Path

_RECORD = """#!{python}
import json, os, sys, pathlib
here = pathlib.Path(__file__).parent
args = sys.argv[1:]
with open(here / (pathlib.Path(__file__).name + ".calls"), "a") as calls:
    calls.write(json.dumps(args) + "\\n")
"""
_CONDA = (
    _RECORD
    + """
def enter(prefix, command):
    found = {**os.environ, "CONDA_PREFIX": prefix, "PATH": prefix + "/bin:" + os.environ["PATH"], "FROM_HOOK": "yes"}
    os.execvpe(command[0], command, found)

def make(prefix):
    os.makedirs(prefix + "/bin", exist_ok=True)
    if not os.path.exists(prefix + "/bin/python"):
        with open(prefix + "/bin/python", "w") as python:
            python.write("#!/bin/sh\\nexec {python} \\"$@\\"\\n")
        os.chmod(prefix + "/bin/python", 0o755)

if args[0] == "run" and args[1] == "-n":
    if args[2] != "there":
        sys.exit("EnvironmentLocationNotFound: Not a conda environment: " + args[2])
    make(str(here / "envs" / "there"))
    enter(str(here / "envs" / "there"), args[3:])
if args[0] == "run" and args[1] == "-p":
    enter(args[2], args[3:])
if args[:2] == ["env", "create"]:
    text = pathlib.Path(args[args.index("-f") + 1]).read_text()
    if "gone" in text:
        sys.exit("ResolvePackageNotFound: gone")
    make(args[args.index("-p") + 1])
    print("made it")
"""
)
_DOCKER = (
    _RECORD
    + """
images = here / "images"
images.mkdir(exist_ok=True)
named = lambda image: images / image.replace("/", "_")

def of(option):
    return [args[at + 1] for at, word in enumerate(args) if word == option]

def command():
    valued = {"--name", "--label", "--user", "--workdir", "--volume", "--env", "--gpus"}
    at = 1
    while args[at].startswith("-"):
        at += 2 if args[at] in valued else 1
    return args[at], args[at + 1:]

if args[0] == "image":
    sys.exit(0 if named(args[-1]).exists() else 1)
if args[0] == "pull":
    if "gone" in args[1]:
        sys.exit("manifest unknown")
    named(args[1]).touch()
if args[0] == "commit":
    named(args[2]).touch()
if args[0] == "run":
    image, words = command()
    inside = {name: os.environ[name] for name in of("--env")}
    inside["PATH"] = os.path.dirname(sys.executable) + ":" + os.defpath
    os.chdir(of("--workdir")[0])
    os.execvpe(words[0], words, inside)
"""
)

_APPTAINER = """#!/bin/sh
case "$1" in
--version) echo apptainer version 1.3 ;;
pull) printf %s "$3" > "$2" ;;
exec)
    while [ "${1%.sif}" = "$1" ]; do shift; done
    export INSIDE="$1"
    shift
    exec "$@" ;;
esac
"""


def _write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(text.replace("{python}", sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def fake_conda(folder: Path) -> Path:
    """It has one environment, ``there``, and builds others from files that do not ask for a package called gone."""
    return _write(folder, "conda", _CONDA)


def fake_docker(folder: Path, name: str = "docker") -> Path:
    """It pulls every image but those called gone, and runs commands of containers as processes with their variables."""
    return _write(folder, name, _DOCKER)


def fake_apptainer(folder: Path) -> Path:
    """It writes the source of an image into the file it pulls, and runs commands with that file's path around them."""
    return _write(folder, "apptainer", _APPTAINER)


def silent_runtime(folder: Path, name: str = "docker") -> Path:
    """A client whose daemon does not answer."""
    return _write(folder, name, "#!/bin/sh\necho Cannot connect to the daemon >&2\nexit 1\n")


def calls(program: Path) -> list[list[str]]:
    """The arguments of every call, in order."""
    import json

    log = program.with_name(program.name + ".calls")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
