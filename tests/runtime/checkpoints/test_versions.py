"""A checkpoint that any supported Python and PyTorch has written is resumed by the one that runs the tests."""

from pathlib import Path

import pytest
import torch

from penstock.elastic import Checkpoints
from tests.runtime.checkpoints.written_state import STEP, WRITTEN, Everything, content, parts, write

_WRITERS = sorted(path for path in WRITTEN.iterdir() if path.is_dir())


def test_there_are_checkpoints_of_several_versions() -> None:
    pythons = {path.name.split("-")[1].rpartition(".")[0] for path in _WRITERS}
    assert {"3.11", "3.12", "3.13"} <= pythons


@pytest.mark.parametrize("folder", _WRITERS, ids=lambda path: path.name)
def test_it_is_read_bit_for_bit(folder: Path) -> None:
    files, wanted, found = Checkpoints(folder), parts(), parts(empty=True)
    look = files.look()
    assert look.passed_over == ()
    assert look.manifest is not None
    assert look.manifest.step == STEP
    files.load(look.manifest, found)
    mine, theirs = wanted.capture(STEP), found.capture(STEP)
    assert mine.tensors.keys() == theirs.tensors.keys()
    for key, tensor in mine.tensors.items():
        assert theirs.tensors[key].dtype == tensor.dtype
        assert torch.equal(theirs.tensors[key], tensor), key
    everything = found.others["everything"]
    assert isinstance(everything, Everything)
    assert repr(everything.state) == repr(content()), "values and types"


@pytest.mark.parametrize("folder", _WRITERS, ids=lambda path: path.name)
def test_what_is_written_here_is_to_the_byte_what_was_written_there(tmp_path: Path, folder: Path) -> None:
    """So whoever reads one reads the other; options that one PyTorch adds to an optimizer may differ."""
    write(tmp_path)
    ours, theirs = (next(place.glob("step-*/")) for place in (tmp_path, folder))
    assert {path.name for path in ours.iterdir()} == {path.name for path in theirs.iterdir()}
    for name in ("shard-00000.bin", "state.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
