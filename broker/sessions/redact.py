"""
Secrets are taken out of what a receipt keeps, before it is signed.

Decided here: what looks like a secret in the text of a command, a path or a URL, and what stands
in its place. The digest of the arguments still proves what they were; their text is for people.

Rules a maintainer keeps: the name stays and the value goes, so that a reader sees what was
there; too much is hidden rather than too little; time is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"

# Bounded on both sides, so that a long run of such words costs no more than its length.
_NAME: Final = (
    r"(?:[a-z0-9_.-]{0,40}?(?:api|access|secret|private|signing|encryption)[_-]?key[a-z0-9_]{0,20}"
    r"|[a-z0-9_.-]{0,40}?(?:secret|passw(?:or)?d|passphrase|credential|cookie|authorization)"
    r"[a-z0-9_-]{0,20}"
    r"|[a-z0-9_.-]{0,40}?(?:token|pwd)(?!s?_?count|izer|s\b)"
    r"|bearer|database_url|dsn)"
)
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}KEY-----|\Z)",
            re.DOTALL,
        ),
        HIDDEN,
    ),
    (re.compile(r"(?<=://)[^/\s@\"'?#]{1,512}(?=@)"), HIDDEN),
    (
        re.compile(
            rf"(?<![a-z0-9_.-])(-{{0,2}}{_NAME})([\"']?\s{{0,4}}[=:]\s{{0,4}})"
            r"(?:\"[^\"]*\"?|'[^']*'?|(?:(?:bearer|basic)\s{1,4})?[^\s\"'&;|,)}]+)",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"\b(bearer|basic)\s{1,4}[^\s\"'\[]{4,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (
        re.compile(rf"(?<![a-z0-9_.-])(--{_NAME}\s+)(?!-)[^\s;|&]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
            r"|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{8,}|A(?:KIA|SIA)[A-Z0-9]{16}"
            r"|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"
            r"|eyJ[\w-]{10,}\.[\w-]{8,}(?:\.[\w-]*)?)"
        ),
        HIDDEN,
    ),
)


def redacted(text: str) -> str:
    """
    Return the text with what looks like a secret replaced.

    >>> redacted("curl -H 'Authorization: Bearer abcdef' https://me:pw@host/")
    "curl -H 'Authorization: [hidden]' https://[hidden]@host/"
    """
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text
