"""Deletion vectors: the marks of rows of a file that are deleted, as a Delta log names them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID = 20  # characters of Z85


def file_of_marks(marks: Mapping[str, Any] | None) -> str | None:
    """The file that holds them, below the table's folder or absolute; None where the log itself does."""
    if marks is None or marks["storageType"] == "i":
        return None
    named = str(marks["pathOrInlineDv"])
    if marks["storageType"] == "p":
        return named
    folder, name = named[:-_UUID], uuid.UUID(bytes=_decoded(named[-_UUID:]))
    return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"


def _decoded(text: str) -> bytes:
    """Five characters of Z85 are four bytes."""
    words = (text[at : at + 5] for at in range(0, len(text), 5))
    return b"".join(_word(word).to_bytes(4, "big") for word in words)


def _word(text: str) -> int:
    value = 0
    for sign in text:
        value = value * len(_Z85) + _Z85.index(sign)
    return value
