"""Files of text become tokens in the order of the files, whatever their format and however often one begins."""

import bz2
import gzip
import json
import lzma
import os
import struct
from itertools import pairwise
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core import InputError
from penstock.data import Packed, TokenDataset, open_tokens, pack
from penstock.runtime.data.packing import pack as packing
from penstock.runtime.data.packing import sources
from penstock.runtime.data.reading.token_stream import TokenStream

TEXTS = ["first document", "", "zweites, mit Umläuten", "third " * 30]


def texts_at(place: Path) -> list[str]:
    """Documents of bytes, as text again."""
    stream = TokenStream(open_tokens(place))
    borders = [*stream.borders(0, len(stream)), len(stream)]
    found = [stream.stretch(start, stop) for start, stop in pairwise(borders)]
    assert all(tokens[-1] == 256 for tokens in found)
    return [tokens[:-1].astype(np.uint8).tobytes().decode() for tokens in found]


def jsonl(path: Path, texts: list[Any], field: str = "text") -> Path:
    path.write_text("".join(json.dumps({field: text}) + "\n" for text in texts))
    return path


def test_every_format_gives_the_same_documents(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    jsonl(tmp_path / "a.jsonl", TEXTS)
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as file:
        file.write((tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    pq.write_table(pa.table({"text": TEXTS, "n": range(4)}), tmp_path / "a.parquet", row_group_size=3)
    for number, name in enumerate(["a.jsonl", "a.jsonl.gz", "a.parquet"]):
        pack([tmp_path / name], tmp_path / f"out{number}")
        assert texts_at(tmp_path / f"out{number}") == [text for text in TEXTS if text], name
    pack([tmp_path / "a.txt"], tmp_path / "lines", kind="lines")
    assert texts_at(tmp_path / "lines") == [text.strip() for text in TEXTS if text]
    pack([tmp_path / "a.txt"], tmp_path / "whole")
    assert texts_at(tmp_path / "whole") == ["\n".join(TEXTS)]


def test_a_directory_is_walked_by_names_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "in" / "b").mkdir(parents=True)
    jsonl(tmp_path / "in" / "b" / "z.jsonl", ["two"])
    jsonl(tmp_path / "in" / "a.jsonl", ["one"])
    (tmp_path / "in" / "notes.pdf").write_bytes(b"no text")
    pack([tmp_path / "in"], tmp_path / "out")
    assert texts_at(tmp_path / "out") == ["one", "two"]


def test_a_tokenizer_file_is_used_and_named(tmp_path: Path) -> None:
    import tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {"<unk>": 0, "a": 1, "b": 2, "</s>": 3}
    tokenizer = tokenizers.Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tok.json"))
    source = jsonl(tmp_path / "a.jsonl", ["a b c", "b"])
    packed = pack([source], tmp_path / "out", tokenizer=str(tmp_path / "tok.json"))
    stream = TokenStream(open_tokens(tmp_path / "out"))
    assert stream.stretch(0, len(stream)).tolist() == [1, 2, 0, 3, 2, 3]
    note = packed.manifest.tokenizer
    assert (note.name, note.vocabulary, note.end, len(note.sha256)) == ("tok.json", 4, 3, 64)
    pack([source], tmp_path / "bare", tokenizer=str(tmp_path / "tok.json"), end="none")
    assert open_tokens(tmp_path / "bare").manifest.tokens == 4
    with pytest.raises(InputError, match="no token '<end>'"):
        pack([source], tmp_path / "never", tokenizer=str(tmp_path / "tok.json"), end="<end>")
    with pytest.raises(InputError, match="a vocabulary with the tokenizer bytes"):
        pack([source], tmp_path / "never", vocabulary=300)
    with pytest.raises(InputError, match="is no tokenizer"):
        pack([source], tmp_path / "never", tokenizer=str(source))
    with pytest.raises(InputError, match="no tokenizer at"):
        pack([source], tmp_path / "never", tokenizer="nothing.json")
    assert not (tmp_path / "never").exists()


def test_documents_that_are_tokens_are_taken_as_they_are(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", [[5, 6, 7], [], [8]], "tokens")
    pack([source], tmp_path / "out", tokenizer="none", vocabulary=100, field="tokens")
    stream = TokenStream(open_tokens(tmp_path / "out"))
    assert stream.stretch(0, len(stream)).tolist() == [5, 6, 7, 8]
    with pytest.raises(InputError, match=r"a.jsonl:1 has tokens outside of 0 to 6"):
        pack([source], tmp_path / "never", tokenizer="none", vocabulary=7, field="tokens")
    with pytest.raises(InputError, match="without a vocabulary"):
        pack([source], tmp_path / "never", tokenizer="none", field="tokens")


def test_pairs_of_megatron_are_converted(tmp_path: Path) -> None:
    """Three sequences, of which the first two are one document."""
    lengths, borders = [3, 2, 4], [0, 2, 3]
    np.arange(9, dtype="<u2").tofile(tmp_path / "m.bin")
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(borders))
    arrays = (np.array(lengths, "<i4"), np.array([0, 6, 10], "<i8"), np.array(borders, "<i8"))
    (tmp_path / "m.idx").write_bytes(head + b"".join(array.tobytes() for array in arrays))
    pack([tmp_path / "m.idx"], tmp_path / "out", tokenizer="none", vocabulary=9)
    stream = TokenStream(open_tokens(tmp_path / "out"))
    assert stream.stretch(0, 9).tolist() == list(range(9))
    assert stream.borders(0, 9) == [0, 5]
    for content, words in ((np.arange(8, dtype="<u2"), "do not lie within m.bin"), (np.zeros(0), "empty")):
        content.tofile(tmp_path / "m.bin")
        with pytest.raises(InputError, match=f"no index of Megatron-LM with tokens beside it: .*{words}"):
            pack([tmp_path / "m.idx"], tmp_path / "never", tokenizer="none", vocabulary=9)
    (tmp_path / "m.idx").write_bytes(b"something else")
    with pytest.raises(InputError, match="no index of Megatron-LM"):
        pack([tmp_path / "m.idx"], tmp_path / "never", tokenizer="none", vocabulary=9)


BAD = {
    "no JSON": ('{"text": "a"', r"a.jsonl:2 is no JSON"),
    "another field": ('{"body": "a"}', r"a.jsonl:2 has no field 'text', only body"),
    "no field": ("{}", r"a.jsonl:2 has no field 'text', only none at all"),
    "no object": ("[1]", r"a.jsonl:2 is a list, not an object with the field 'text'"),
    "no text": ('{"text": 5}', r"a.jsonl:2 has a number where text should be"),
    "null": ('{"text": null}', r"a.jsonl:2 has null where text should be"),
    "tokens": ('{"text": [1, 2]}', r"a.jsonl:2 is a list where text should be .*--tokenizer none"),
    "lists": ('{"text": [[1, 2], [3, 4]]}', r"a.jsonl:2 is no list of tokens"),
    "too deep": ("[" * 100_000, r"a.jsonl:2 .* nested too deeply"),
    "Latin-1": (b'{"text": "caf\xe9"}', r"a.jsonl:2 is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_nothing_can_be_taken_for_a_data_set(tmp_path: Path, name: str) -> None:
    line, words = BAD[name]
    source = tmp_path / "a.jsonl"
    line = line if isinstance(line, bytes) else line.encode()
    source.write_bytes(b'{"text": "good"}\n' + line + b'\n\n{"text": "also good"}\n')
    with pytest.raises(InputError, match=words):
        pack([source], tmp_path / "out")
    with pytest.raises(InputError, match="no packed tokens"):
        open_tokens(tmp_path / "out")
    packed = pack([source], tmp_path / "out", skip_bad=True)
    assert (packed.skipped_count, texts_at(tmp_path / "out")) == (1, ["good", "also good"])
    assert "a.jsonl:2" in packed.skipped[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, [2], 3], "is no list of tokens"), ([[1, 2], [3, 4]], "is no list of tokens"),
        ([1, 2.5], "is no list of tokens"), ([1, 9], "has tokens outside of 0 to 8"),
        ("words", "is text, where --tokenizer none wants a list of tokens"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_tokens_is_named(tmp_path: Path, value: Any, words: str) -> None:
    source = jsonl(tmp_path / "a.jsonl", [[1, 2], value])
    with pytest.raises(InputError, match=f"a.jsonl:2 {words}"):
        pack([source], tmp_path / "out", tokenizer="none", vocabulary=9)


def test_what_editors_put_before_text_is_no_part_of_it_and_other_encodings_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n', encoding="utf-8-sig")
    (tmp_path / "b.txt").write_text("two", encoding="utf-8-sig")
    pack([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out")
    assert texts_at(tmp_path / "out") == ["one", "two"]
    (tmp_path / "c.jsonl").write_text('{"text": "three"}\n', encoding="utf-16")
    with pytest.raises(InputError, match=r"c.jsonl:1 is not UTF-8"):
        pack([tmp_path / "c.jsonl"], tmp_path / "never")


def test_a_link_that_leads_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    jsonl(tmp_path / "in" / "a.jsonl", ["one"])
    (tmp_path / "in" / "b.jsonl").symlink_to(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match=r"b.jsonl leads nowhere.*Mend the link"):
        pack([tmp_path / "in"], tmp_path / "out")
    (tmp_path / "in" / "b.jsonl").unlink()
    os.mkfifo(tmp_path / "in" / "c.jsonl")
    pack([tmp_path / "in"], tmp_path / "out")
    assert texts_at(tmp_path / "out") == ["one"]


def test_what_cannot_be_packed_is_refused_before_anything_is_replaced(tmp_path: Path) -> None:
    good = jsonl(tmp_path / "a.jsonl", ["kept"])
    pack([good], tmp_path / "out")
    for inputs, more, words in [
        (["nothing.jsonl"], {}, "nothing.jsonl does not exist"),
        ([good], {"kind": "yaml"}, "unknown format 'yaml'"),
        ([tmp_path / "out"], {}, "no files to pack"),
        ([good], {"end": "x"}, "no --end"),
        ([good], {"tokenizer": str(tmp_path / "none.json")}, "no tokenizer at .*Check the path"),
        ([good], {"tokenizer": str(good)}, "a.jsonl is no tokenizer"),
        ([good], {"kind": "parquet"}, "a.jsonl is no Parquet file.*say what it is with --format"),
    ]:
        with pytest.raises(InputError, match=words):
            pack(inputs, tmp_path / "out", force=True, **more)
    assert texts_at(tmp_path / "out") == ["kept"]
    with pytest.raises(InputError, match="holds packed tokens"):
        pack([good], tmp_path / "out")
    with pytest.raises(InputError, match="format its name does not tell"):
        pack([tmp_path / "out" / "manifest.json", tmp_path / "out" / "shard-00000.tok"], tmp_path / "new")


def test_empty_inputs_are_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tokens were given"):
        pack([jsonl(tmp_path / "a.jsonl", ["", ""])], tmp_path / "out")


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two files of several pieces each."""
    monkeypatch.setattr(sources, "PIECE_BYTES", 2000)
    texts = [f"document {number} " * (number % 17 + 1) for number in range(400)]
    return [jsonl(tmp_path / "a.jsonl", texts[:150]), jsonl(tmp_path / "b.jsonl", texts[150:])]


class InterruptedPackingError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 4, 9, 13])
def test_a_packing_that_is_interrupted_goes_on_and_comes_to_the_same(
    tmp_path: Path, many: list[Path], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    seen: list[int] = []
    whole = pack(many, tmp_path / "whole", shard_bytes=3000, progress=seen.append)
    pieces_in_all, pieces = len(seen), 0

    def stop(_: int) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == after:
            raise InterruptedPackingError

    with pytest.raises(InterruptedPackingError):
        pack(many, tmp_path / "out", shard_bytes=3000, progress=stop)
    with pytest.raises(InputError, match="was not finished"):
        TokenDataset(tmp_path / "out", sequence=16)
    with pytest.raises(InputError, match="other inputs or settings"):
        pack(many[:1], tmp_path / "out", shard_bytes=3000)
    looked_at: list[sources.Piece] = []
    tokenize = packing.tokenize
    monkeypatch.setattr(packing, "tokenize", lambda piece, choice: looked_at.append(piece) or tokenize(piece, choice))
    again = pack(many, tmp_path / "out", shard_bytes=3000)
    assert again.manifest == whole.manifest
    assert again.went_on
    assert len(looked_at) <= pieces_in_all - after + 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_several_processes_come_to_the_same(tmp_path: Path, many: list[Path]) -> None:
    alone: Packed = pack(many, tmp_path / "one", shard_bytes=3000, processes=1)
    together = pack(many, tmp_path / "two", shard_bytes=3000, processes=2)
    assert alone.manifest == together.manifest


def test_a_process_that_is_ended_from_outside_is_told_and_the_packing_goes_on_later(
    tmp_path: Path, many: list[Path]
) -> None:
    def end_all(_: int) -> None:
        for process in active_children():
            process.kill()

    with pytest.raises(InputError, match=r"ended from outside.*fewer --processes"):
        pack(many, tmp_path / "out", shard_bytes=3000, processes=2, progress=end_all)
    with pytest.raises(InputError, match="not finished"):
        open_tokens(tmp_path / "out")
    assert pack(many, tmp_path / "out", shard_bytes=3000, processes=1).went_on
    whole = pack(many, tmp_path / "whole", shard_bytes=3000, processes=1)
    assert open_tokens(tmp_path / "out").manifest == whole.manifest


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_compressed_file_that_is_cut_off_or_something_else_is_named(tmp_path: Path, suffix: str) -> None:
    library = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
    whole = library.compress(b"".join(b'{"text": "%d"}\n' % number**7 for number in range(2000)))
    for name, content in (("cut", whole[: len(whole) // 2]), ("other", b"no such thing at all")):
        source = tmp_path / f"{name}.jsonl{suffix}"
        source.write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}.jsonl{suffix} cannot be read to its end"):
            pack([source], tmp_path / "out")
        assert not (tmp_path / "out").exists()
