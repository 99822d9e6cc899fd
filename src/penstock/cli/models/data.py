"""``penstock data``: pack text into tokens for training, look at what was packed, check that it is still that."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.terminal.console import complain, out, plain_table, say
from penstock.core import format_bytes, parse_bytes

if TYPE_CHECKING:
    from penstock.runtime import DataManifest

_WIDEST = 24
app = typer.Typer(no_args_is_help=True, help="Pack text into tokens for training; look at them, check them.")

PlaceArgument = Annotated[str, typer.Argument(metavar="DATA", help="A directory or a URL, such as s3://bucket/corpus.")]


@app.command("pack")
def pack_command(
    inputs: Annotated[
        list[str], typer.Argument(metavar="IN…", help="JSON lines, text, Parquet or Megatron .idx; directories; URLs.")
    ],
    place: Annotated[str, typer.Option("--out", help="Where to: a directory or a URL, such as s3://bucket/corpus.")],
    tokenizer: Annotated[
        str, typer.Option(help="A tokenizer.json, `bytes`, or `none` for documents that are tokens already.")
    ] = "bytes",
    field: Annotated[str, typer.Option(help="The key or column with the text.")] = "text",
    source_format: Annotated[
        str | None, typer.Option("--format", help="jsonl, text, lines, parquet or megatron (default: by the name).")
    ] = None,
    end: Annotated[
        str | None, typer.Option(help="The token behind every document, or `none` (default: the tokenizer's own).")
    ] = None,
    vocabulary: Annotated[int | None, typer.Option(min=1, help="With --tokenizer none: how many tokens exist.")] = None,
    shard_size: Annotated[str, typer.Option(help="Bytes of a shard.")] = "256MiB",
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many to tokenize with (default: one per core).")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave lines out that cannot be used.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace packed tokens that are there.")] = False,
) -> None:
    """Pack text into sharded tokens with checksums. Stopped and started again, it goes on where it was."""
    from penstock.runtime import pack_text

    try:
        packed = pack_text(
            inputs, place, tokenizer=tokenizer, field=field, kind=source_format, end=end, vocabulary=vocabulary,
            shard_bytes=parse_bytes(shard_size), processes=processes, skip_bad=skip_bad, force=force,
        )  # fmt: skip
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on behind the last whole shard")
        raise typer.Exit(130) from None
    if packed.went_on:
        say("went on from a packing that was interrupted")
    for line in packed.skipped:
        say(f"left out: {line}")
    if packed.skipped_count:
        say(f"{packed.skipped_count:,} line{'s were' if packed.skipped_count > 1 else ' was'} left out")
    say(f"{_words(packed.manifest)} at {place}")


@app.command("show")
def show_command(
    place: PlaceArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what is in packed tokens: documents, tokens, shards, the tokenizer, a checksum of everything."""
    from penstock.runtime import open_tokens

    manifest = open_tokens(place).manifest
    tokenizer = manifest.tokenizer
    facts = {
        "documents": manifest.documents, "tokens": manifest.tokens, "shards": len(manifest.shards),
        "bytes": manifest.tokens * manifest.token_bytes, "token_bytes": manifest.token_bytes,
        "tokenizer": tokenizer.name, "tokenizer_sha256": tokenizer.sha256, "vocabulary": tokenizer.vocabulary,
        "end": tokenizer.end, "checksum": manifest.checksum,
    }  # fmt: skip
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    table = plain_table("", "", title=place)
    table.show_header = False
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _shown(value)[:_WIDEST])
    out.print(table)


@app.command("verify")
def verify_command(place: PlaceArgument) -> None:
    """Read everything and compare it with its checksums; ends with 1 if something is damaged."""
    from penstock.runtime import open_tokens, verify_tokens

    stored = open_tokens(place)
    damages = verify_tokens(stored)
    for damage in damages:
        print(f"{damage.shard}: {damage.reason} ({damage.tokens:,} tokens)")
    if damages:
        lost = sum(damage.tokens for damage in damages)
        complain(
            f"{lost / stored.manifest.tokens:.2%} of the tokens at {place} are damaged: pack them again, or restore"
        )
        raise typer.Exit(1)
    say(f"{_words(stored.manifest)}: all as they were written")


def _words(manifest: "DataManifest") -> str:
    size = format_bytes(manifest.tokens * manifest.token_bytes)
    shards = f"{len(manifest.shards)} shard{'s' * (len(manifest.shards) > 1)}"
    return f"{manifest.tokens:,} tokens of {manifest.documents:,} documents in {shards} ({size})"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value) if value not in (None, "") else "-"
