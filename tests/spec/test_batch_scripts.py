"""Batch scripts of Slurm, as people have them, become job files; what means nothing here is said."""

from pathlib import Path

import pytest

from penstock.core import InputError
from penstock.spec import from_flags, load_job_file, read_batch_script
from penstock.spec.host_lists import MOST_HOSTS, expand_hosts

SCRIPT = """#!/bin/bash
#SBATCH --job-name=bert.large --nodes=2
#SBATCH --gres=gpu:a100:4
#SBATCH -t 12:00:00 -p ml -A physics
#SBATCH --cpus-per-task 8      # cores
#SBATCH --mem=64G
#SBATCH --output=out-%j.log
#SBATCH --array=0-9
#SBATCH --signal=B:USR1@120
#SBATCH --no-requeue
#SBATCH --exclusive
#PENSTOCK work: 10_000 steps
module load cuda
source /envs/bert/bin/activate
export LR=3e-4
srun --ntasks 8 --label torchrun --nnodes 2 --nproc_per_node=4 \\
    train.py --lr $LR
echo done
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "train.sbatch"
    path.write_text(text)
    return path


def test_a_script_as_people_have_it(tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPT)
    job = load_job_file(path)
    assert (job.name, job.devices.min, job.devices.max, job.kinds) == ("bert.large", 8, 8, ("a100",))
    assert (job.grace, job.retries.max, job.steps) == (120.0, 0, 10_000)
    shell, flag, command = job.command_line()
    assert (shell, flag) == ("bash", "-c")
    assert command.splitlines() == [
        "module load cuda", "source /envs/bert/bin/activate", "export LR=3e-4", "exec python train.py --lr $LR",
    ]  # fmt: skip
    ignored = read_batch_script(path).ignored
    names = [line.partition("=")[0].partition(":")[0] for line in ignored]
    assert names == [
        "--time",
        "--partition",
        "--account",
        "--cpus-per-task",
        "--mem",
        "--output",
        "--array",
        "--exclusive",
    ]
    assert "--array=0-9: give --array FIRST..LAST to penstock submit" in ignored


@pytest.mark.parametrize(
    ("lines", "devices"),
    [
        ("--ntasks=6", 6), ("-N2 --ntasks-per-node=3", 6), ("--gpus=5", 5), ("--gpus=h200:5", 5),
        ("-N 2 --gpus-per-node=8", 16), ("-n 4 --gpus-per-task=1", 4), ("--gres=gpu:2", 2), ("", 1),
    ],
)  # fmt: skip
def test_devices(tmp_path: Path, lines: str, devices: int) -> None:
    path = written(tmp_path, f"#!/bin/sh\n#SBATCH {lines}\npython train.py\n")
    assert from_flags(file=path, work="5 steps").devices.max == devices


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("srun python train.py -n 3", "exec python train.py -n 3"),
        ("srun -n 8 -c 4 --mpi=pmix python3 train.py", "exec python3 train.py"),
        ("python -m torch.distributed.run --nproc_per_node 4 train.py x", "exec python train.py x"),
        ("torchrun --standalone --nproc-per-node=2 train.py", "exec python train.py"),
        ("torchrun --nnodes 2 train.py --text 'a  b'", "exec python train.py --text 'a  b'"),
        ("/opt/conda/bin/python3.11 train.py", "exec /opt/conda/bin/python3.11 train.py"),
    ],
)
def test_launchers_are_taken_off(tmp_path: Path, line: str, command: str) -> None:
    assert read_batch_script(written(tmp_path, f"#!/bin/sh\n{line}\n")).values["command"][2] == command


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="starts no training"):
        read_batch_script(written(tmp_path, "#!/bin/sh\nmake all\n"))
    with pytest.raises(InputError, match="whole number"):
        read_batch_script(written(tmp_path, "#SBATCH --nodes=many\npython train.py\n"))
    with pytest.raises(InputError, match="KEY: VALUE"):
        read_batch_script(written(tmp_path, "#PENSTOCK work\npython train.py\n"))


def test_an_expression_names_at_most_so_many_hosts() -> None:
    assert len(expand_hosts(f"n[1-{MOST_HOSTS - 1}],login")) == MOST_HOSTS
    with pytest.raises(InputError, match=f"more than {MOST_HOSTS} hosts"):
        expand_hosts(f"n[1-{MOST_HOSTS}],login")
