"""``penstock data``: text goes in, tokens come out, and what is wrong is told in one line."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tools.commandline import penstock


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": f"document {number} " * 9}) + "\n" for number in range(100)))
    return path


def test_text_is_packed_shown_and_verified(text: Path, tmp_path: Path) -> None:
    packed = penstock("data", "pack", str(text), "--out", "packed", "--shard-size", "4KiB", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert "10,810 tokens of 100 documents in 6 shards (21.6KB) at packed" in packed.stderr
    facts = json.loads(penstock("data", "show", "packed", "--json", cwd=tmp_path).stdout)
    assert (facts["documents"], facts["tokens"], facts["shards"], facts["tokenizer"]) == (100, 10_810, 6, "bytes")
    shown = penstock("data", "show", "packed", cwd=tmp_path).stdout
    assert "10,810" in shown
    assert facts["checksum"][:16] in shown
    assert penstock("data", "verify", "packed", cwd=tmp_path).returncode == 0
    shard = tmp_path / "packed" / "shard-00002.tok"
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])
    found = penstock("data", "verify", "packed", cwd=tmp_path)
    assert found.returncode == 1
    assert "shard-00002: block 0 differs from its checksum" in found.stdout
    assert "of the tokens at packed are damaged" in found.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "nothing"), "no packed tokens at nothing"),
        (("verify", "nothing"), "no packed tokens at nothing"),
        (("pack", "nothing.jsonl", "--out", "new"), "nothing.jsonl does not exist"),
        (("pack", "text.jsonl", "--out", "new", "--field", "body"), "text.jsonl:1 has no field 'body', only text"),
        (("pack", "text.jsonl", "--out", "new", "--shard-size", "12 parsecs"), "12 parsecs"),
        (("pack", "text.jsonl", "--out", "new", "--tokenizer", "none"), "--vocabulary N with --tokenizer none"),
        (("pack", "text.jsonl", "--out", "new", "--tokenizer", "text.jsonl"), "text.jsonl is no tokenizer"),
        (("pack", "text.jsonl", "--out", ""), "a place without a name"),
        (("pack", "text.jsonl", "--out", "text.jsonl"), "text.jsonl cannot be written to"),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(
    words: tuple[str, ...], complaint: str, text: Path, tmp_path: Path
) -> None:
    done = penstock("data", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / "new" / "manifest.json").exists()


_PACK = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.cli import main
main()
"""


_LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
from penstock.cli import main
main()
"""


def test_what_no_longer_fits_is_told_and_goes_on_when_it_does(text: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk that is full."""
    with text.open("a") as file:
        file.write(json.dumps({"text": "long " * 2000}) + "\n")
    words = ["data", "pack", "text.jsonl", "--out", "packed", "--shard-size", "4KiB"]
    command = [sys.executable, "-c", _LIMITED, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "packed cannot be written to: File too large" in done.stderr
    assert "the same command again: it goes on behind the last whole shard" in done.stderr
    assert "went on from a packing that was interrupted" in penstock(*words, cwd=tmp_path).stderr
    assert "all as they were written" in penstock("data", "verify", "packed", cwd=tmp_path).stderr


def test_ctrl_c_pressed_twice_ends_the_packing_with_all_its_processes(text: Path, tmp_path: Path) -> None:
    """The text comes from a pipe, so that one process reads while another, just begun, is waited for."""
    os.mkfifo(tmp_path / "endless.txt")
    words = ["data", "pack", "text.jsonl", "endless.txt", "--out", "packed", "--processes", "2"]
    process = subprocess.Popen([sys.executable, "-c", _PACK, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "endless.txt").open("w") as pipe:
        pipe.write("more ")
        pipe.flush()
        for patience_s in (0.05, 120):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=patience_s)
    process.kill()
    assert process.wait() in (130, -signal.SIGINT), "the second may come when nobody listens any more"
    assert not (tmp_path / "packed" / "manifest.json").exists()


def test_ctrl_c_leaves_nothing_that_could_be_taken_for_whole(text: Path, tmp_path: Path) -> None:
    """The text comes from a pipe that ends after the signal, so the packing is in the middle when it hears of it."""
    os.mkfifo(tmp_path / "endless.txt")
    words = ["data", "pack", "text.jsonl", "endless.txt", "--out", "packed", "--shard-size", "4KiB"]
    command = [sys.executable, "-c", _PACK, *words]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "endless.txt").open("w") as pipe:
        pipe.write("more ")
        pipe.flush()
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command goes on behind the last whole shard" in said
    assert not (tmp_path / "packed" / "manifest.json").exists()
    shown = penstock("data", "show", "packed", cwd=tmp_path)
    assert "the packing at packed was not finished" in shown.stderr
