"""Signatures of whoever runs the platform: one file, ``signatures.toml`` in the data directory."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.core import InputError
from penstock.diagnose.signatures.catalogue import Catalogue, read_signature, shipped_catalogue
from penstock.diagnose.signatures.model import Category, Signature
from penstock.diagnose.signatures.trial import tried
from penstock.tools import write_atomically

FILE = "signatures.toml"
_PATIENCE_S = 5.0


def catalogue_with(data_dir: Path) -> Catalogue:
    """What comes with us and what lies in a data directory, where everything has to find its example."""
    file, shipped = data_dir / FILE, shipped_catalogue()
    if not file.exists():
        return shipped
    catalogue = shipped.with_files([file])
    for name, signature in catalogue.signatures.items():
        if shipped.signatures.get(name) is not signature:
            _must_pass(signature, file.name)
    return catalogue


def add_signature(data_dir: Path, fields: Mapping[str, object], category: Category | None = None) -> Signature:
    """Try a signature, and write it to the file of a data directory if nothing is wrong with it.

    ``category`` describes one that is new. A signature that fails changes nothing.
    """
    before = catalogue_with(data_dir)
    known = dict(before.categories) | ({category.name: category} if category is not None else {})
    signature = read_signature({key: value for key, value in fields.items() if value}, known, "the new signature")
    if signature.id in before.signatures:
        raise InputError(f"id {signature.id!r} is taken", "one that no signature has", "Choose another id")
    _must_pass(signature, "nothing was written", patience_s=_PATIENCE_S)
    file = data_dir / FILE
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    text = "\n".join([written.rstrip(), *_category_lines(category), *_signature_lines(signature)]).lstrip()
    data_dir.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text + "\n")
    return signature


def _must_pass(signature: Signature, where: str, *, patience_s: float = 0.0) -> None:
    if faults := tried(signature, patience_s=patience_s).faults:
        given = f"signature {signature.id}: {'; '.join(faults)}"
        raise InputError(given, "one that finds its example, in time", f"Mend it ({where})")


def _category_lines(category: Category | None) -> list[str]:
    if category is None:
        return []
    fields = {"group": category.group, "cause": category.cause, "fix": category.fix, "action": str(category.action)}
    return ["", f'[category."{category.name}"]', *(f"{key} = {_quoted(value)}" for key, value in fields.items())]


def _signature_lines(signature: Signature) -> list[str]:
    texts = {
        "id": signature.id, "category": signature.category, "level": str(signature.level), "regex": signature.regex,
        "near": signature.near, "unless": signature.unless, "example": signature.example, "source": signature.source,
        "cause": signature.cause, "fix": signature.fix, "action": str(signature.action),
    }  # fmt: skip
    anchors = f"anchors = [{', '.join(map(_quoted, signature.anchors))}]"
    return ["", "[[signature]]", *(f"{key} = {_quoted(value)}" for key, value in texts.items() if value), anchors]


def _quoted(text: str) -> str:
    """A basic string of TOML, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
