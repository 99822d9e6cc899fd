"""A data set as whoever reads it finds it: its place and its manifest, or a sentence about why there is none."""

from dataclasses import dataclass
from pathlib import Path

from penstock.core import InputError
from penstock.runtime.data.storage.data_manifest import MANIFEST, DataManifest
from penstock.runtime.data.storage.places import Place, place_of

JOURNAL = "packing.json"
"""How far an unfinished packing has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTokens:
    """Packed tokens at a place."""

    location: str
    place: Place
    manifest: DataManifest


def open_tokens(location: str | Path) -> StoredTokens:
    """Find packed tokens, in a directory or below a URL."""
    place = place_of(location)
    try:
        manifest = DataManifest.parse(place.text(MANIFEST))
    except FileNotFoundError:
        raise _missing(location, place) from None
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{location}/{MANIFEST} cannot be used: {problem}", "what `penstock data pack` wrote", "Pack the data again"
        ) from None
    place.pin(manifest.checksum)
    return StoredTokens(location=str(location), place=place, manifest=manifest)


def _missing(location: str | Path, place: Place) -> InputError:
    if JOURNAL in place.names():
        return InputError(
            f"the packing at {location} was not finished", "a whole data set",
            "Give the same `penstock data pack` command again: it goes on where it stopped",
        )  # fmt: skip
    return InputError(
        f"no packed tokens at {location}", "what `penstock data pack` wrote", "Pack them first, or check the path"
    )
