"""
Showing what a receipt holds without being deceived by it.

Decided here: which characters are shown as themselves. A signed text is exactly what was
recorded, and may have been chosen by an agent to mislead whoever reads it: terminal escapes,
reversed or invisible text. So whatever does not print as itself is spelled out.
"""

from __future__ import annotations

import re
from typing import Final

from broker.receipt.entry import canonical

_PLAIN: Final = re.compile(r"[ -~]*")


def escaped(text: str) -> str:
    r"""
    Return ``text`` with every character that is not visible spelled as ``\u`` and its number.

    Control characters, bidirectional and zero-width marks, line separators and odd blanks
    are all spelled out; letters of every script stay.

    >>> print(escaped("ok\x1b[2J caf\u00e9 \u202etxt"))
    ok\u001b[2J café \u202etxt
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(c if c.isprintable() else _spell(c) for c in text)


def shown(value: object) -> str:
    r"""
    Return recorded data as one line of JSON that is safe to print, and still JSON.

    >>> print(shown({"path": "a\nb\u200bc"}))
    {"path":"a\nb\u200bc"}
    """
    return escaped(canonical(value))


def _spell(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
