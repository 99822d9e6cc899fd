"""All signatures that a diagnosis knows: those that come with us, and those of whoever runs the platform.

A file is TOML: tables ``[category."mem.gpu_oom"]`` with what a whole kind has in common, and one ``[[signature]]`` per
wording. A later file may add categories and signatures; a signature with the id of an earlier one replaces it.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from penstock.core import InputError, Remedy
from penstock.diagnose.signatures.literals import LEAST_ANCHOR, anchors_of
from penstock.diagnose.signatures.model import Category, Level, Signature

_SHIPPED = Path(__file__).parent / "shipped"
_GROUPS = ("infrastructure", "framework", "script")
_CATEGORY_KEYS = frozenset(("group", "cause", "fix", "action"))
_TEXT_KEYS = frozenset(
    ("id", "category", "level", "regex", "example", "source", "near", "unless", "cause", "fix", "action")
)
_SIGNATURE_KEYS = _TEXT_KEYS | {"anchors", "covers"}
PRECEDENCE = (
    "hw", "env", "mem", "storage", "limits", "build", "launch", "cfg", "rdzv", "net", "ckpt", "numeric", "gpu", "code",
    "proc", "comm",
)  # fmt: skip
"""Families of categories, the one that explains the others first; a family of somebody's own comes before them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Categories and signatures by name."""

    categories: Mapping[str, Category]
    signatures: Mapping[str, Signature]

    def extended(self, document: Mapping[str, Any], where: str) -> "Catalogue":
        """This catalogue and what a file adds to it."""
        categories = dict(self.categories)
        for name, fields in document.get("category", {}).items():
            categories[name] = _category(name, fields, where)
        signatures = dict(self.signatures)
        for number, fields in enumerate(document.get("signature", ()), start=1):
            signature = read_signature(fields, categories, f"{where}, signature {number}")
            signatures[signature.id] = signature
        return Catalogue(categories=categories, signatures=signatures)

    def with_files(self, files: Iterable[Path]) -> "Catalogue":
        catalogue = self
        for file in files:
            catalogue = catalogue.extended(_document(file), file.name)
        return catalogue

    def similar(self, category: str, first: Signature | None = None, most: int = 3) -> tuple[str, ...]:
        """Addresses of public reports of a category, that of ``first`` before the others."""
        own = [first.source] if first is not None else []
        others = (signature.source for signature in self.signatures.values() if signature.category == category)
        return tuple(filter(None, dict.fromkeys([*own, *others])))[:most]


@cache
def shipped_catalogue() -> Catalogue:
    """What comes with us."""
    return Catalogue(categories={}, signatures={}).with_files(sorted(_SHIPPED.glob("*.toml")))


def read_signature(fields: Mapping[str, Any], categories: Mapping[str, Category], where: str) -> Signature:
    """A signature from a table of a file; what its category says holds where it says nothing itself."""
    _known_keys(fields, _SIGNATURE_KEYS, where)
    category = categories.get(str(fields.get("category", "")))
    if category is None:
        raise InputError(
            f"{where}: category {fields.get('category')!r}", "one that a [category] table describes",
            "`penstock signatures list` names them; a new one needs a [category.\"NAME\"] table",
        )  # fmt: skip
    regex = str(fields.get("regex", ""))
    anchors = tuple(map(str, fields.get("anchors", ()))) or anchors_of(regex)
    _must_anchor(anchors, where)
    texts = {key: str(fields.get(key, "")) for key in ("id", "example", "source", "near", "unless")}
    if not regex or not texts["id"]:
        raise InputError(f"{where}: no id or no regex", "both", "Give the signature an id and a regex")
    return Signature(
        **texts, category=category.name, regex=regex, anchors=anchors, covers=fields.get("covers", False) is True,
        level=_member(Level, fields.get("level", "root"), "level", where),
        cause=str(fields.get("cause", category.cause)), fix=str(fields.get("fix", category.fix)),
        action=_member(Remedy, fields.get("action", category.action), "action", where),
    )  # fmt: skip


def _must_anchor(anchors: tuple[str, ...], where: str) -> None:
    """A line is looked at because of its literals: without long enough ones a signature would never be asked."""
    short = [anchor for anchor in anchors if len(anchor.encode()) < LEAST_ANCHOR]
    if not anchors or short:
        given = f"anchor {short[0]!r}" if short else "no literal text that is in every match"
        raise InputError(f"{where}: {given}", f"anchors of {LEAST_ANCHOR} bytes or more", "Name anchors")


def _category(name: str, fields: Mapping[str, Any], where: str) -> Category:
    _known_keys(fields, _CATEGORY_KEYS, f"{where}, category {name}")
    if "." not in name or fields.get("group") not in _GROUPS:
        raise InputError(
            f"{where}: category {name!r} of group {fields.get('group')!r}",
            f"FAMILY.NAME, and a group of {', '.join(_GROUPS)}", "Write it as in docs/doctor.md",
        )  # fmt: skip
    return Category(
        name=name, group=str(fields["group"]), cause=str(fields.get("cause", "")), fix=str(fields.get("fix", "")),
        action=_member(Remedy, fields.get("action", "observe"), "action", where),
    )  # fmt: skip


def _member(kind: Any, value: object, key: str, where: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{where}: {key} {value!r}", f"one of {', '.join(kind)}", f"Correct the {key}") from None


def _known_keys(fields: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
    if unknown := sorted(set(fields) - allowed):
        raise InputError(
            f"{where}: {', '.join(unknown)}", ", ".join(sorted(allowed)), "Remove it, or mend its spelling"
        )


def _document(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"signatures in {file}: {error}", "a TOML file as docs/doctor.md describes it", "Mend or remove the file"
        ) from None
