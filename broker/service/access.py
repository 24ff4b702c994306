"""
Who may ask the service over HTTP, and for what.

Decided here: the two roles, how a key names its caller, and which file of keys is believed. Not
decided here: what each request needs (``broker.service.app``).

The file has one key a line, ``ROLE NAME KEY``, blank lines and ``#`` lines aside:

    evaluator  checkout-backend  6f1c…   # may ask for decisions
    operator   alex              90be…   # may mint and end sessions, too

An operator is a person: their key stands in no agent's environment, and each line that they mint
by is recorded with their name. An evaluator is a program that enforces decisions.

Rules a maintainer keeps: keys come from a private file, never from a command line; only their
digests stay in memory, and a key is looked up by its digest, so that no comparison tells how much
of a guess was right.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, get_args

from broker.errors import ConfigError, InputError
from broker.limits import MAX_SERVED_FILE_BYTES
from broker.receipt import disk

Role = Literal["evaluator", "operator"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_KEY: Final = re.compile(r"[A-Za-z0-9._~+/=-]{32,512}")  # as a bearer token may be spelled
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Who asks: the name that their key has, and what they may do."""

    name: str
    role: Role


STRANGER: Final = KeyHolder("", "evaluator")  # who needs no key, since all may ask that
LOCAL: Final = KeyHolder("local", "evaluator")  # a process of this user, at the unix socket


class ServiceKeys:
    """
    The keys of a service.

    >>> keys = ServiceKeys.read("operator alex " + "k" * 32)
    >>> keys.caller("Bearer " + "k" * 32)
    KeyHolder(name='alex', role='operator')
    >>> keys.caller("Bearer guess") is None
    True
    """

    def __init__(self, callers: dict[bytes, KeyHolder]) -> None:
        self._callers = callers

    @classmethod
    def read(cls, text: str) -> ServiceKeys:
        """
        Read a file's text.

        Raises:
            ConfigError: a line is malformed, or a key stands twice; the key is never shown.
        """
        roles: dict[str, Role] = {role: role for role in get_args(Role)}
        found: dict[bytes, KeyHolder] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 3 or words[0] not in roles:
                raise ConfigError(
                    f"line {number} of the file of keys is not `ROLE NAME KEY`, with one of "
                    f"{', '.join(roles)}"
                )
            role, name, key = words
            if _NAME.fullmatch(name) is None:
                raise ConfigError(f"line {number} of the file of keys: `{name}` is no name")
            if _KEY.fullmatch(key) is None:
                raise ConfigError(
                    f"line {number} of the file of keys: a key has 32 to 512 characters of a "
                    "bearer token, such as `openssl rand -hex 32` prints"
                )
            digest = _digest(key)
            if digest in found:
                raise ConfigError(f"line {number} of the file of keys: the key stands twice")
            found[digest] = KeyHolder(name, roles[role])
        return cls(found)

    @classmethod
    def load(cls, path: Path) -> ServiceKeys:
        """
        Read a file that nobody else may read.

        Raises:
            UnverifiableError: it is missing or unsafe.
            ConfigError: its content is malformed, or holds no key.
        """
        keys = cls.read(private_text(path, "file of keys"))
        if not keys._callers:
            raise ConfigError(f"the file of keys `{path}` holds no key")
        return keys

    def caller(self, authorization: str) -> KeyHolder | None:
        """Return who an ``Authorization`` header names, or None."""
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return None
        key = authorization[len(_BEARER) :].strip()
        return self._callers.get(_digest(key)) if key.isascii() else None


def private_text(path: Path, what: str) -> str:
    """
    Return the text of a file that only its owner may read and write.

    Raises:
        UnverifiableError: it is missing or unsafe.
        InputError: it is not UTF-8, or too large.
    """
    fd = disk.open_checked(Path(os.path.abspath(path)), what, forbidden=disk.BEYOND_OWNER)
    with os.fdopen(fd, "rb") as stream:
        content = stream.read(MAX_SERVED_FILE_BYTES + 1)
    if len(content) > MAX_SERVED_FILE_BYTES:
        raise InputError(f"the {what} `{path}` has more than {MAX_SERVED_FILE_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"the {what} `{path}` is not UTF-8") from None


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
