"""Byte-level BPE writes each byte as one visible character: itself, or a character from U+0100 on."""

from __future__ import annotations


def _byte_of() -> dict[str, int]:
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    return {chr(byte): byte for byte in visible} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


BYTE_OF = _byte_of()


def bytes_of(piece: str) -> bytes:
    """The bytes of a piece. Added tokens of other libraries are plain text."""
    if not BYTE_OF.keys() >= set(piece):
        return piece.encode()
    return bytes(BYTE_OF[character] for character in piece)
