"""
What a person typed on the command line: the options that commands share, and how they are read.

Decided here: how ``ARG=VALUE`` becomes an argument, which folder is meant, where a file comes
from. Not decided here: what a scope text means (``broker.scope``) or a call touches
(``broker.resolve``).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.receipt.signing import VerifyKey

Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="KEY=VALUE",
        help="What is permitted: KEY=VALUE, or @NAME for a policy. Give it again for more.",
        autocompletion=completing.scope_texts,
    ),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The folder that path patterns start from.",
        show_default="the current folder",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_MAX_FILE_BYTES: Final = 16 * 2**20  # bytes of one ticket or policy file


def arguments(pairs: Sequence[str]) -> dict[str, object]:
    """
    Return the arguments of a call from ``ARG=TEXT`` and ``ARG:=JSON``.

    Raises:
        InputError: not a pair, a name given twice, or not JSON.

    >>> arguments(["path=src/a.py", "limit:=3"])
    {'path': 'src/a.py', 'limit': 3}
    """
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        literal = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise InputError(f"`{_short(pair)}` is not an argument: write ARG=TEXT or ARG:=JSON")
        if name in found:
            raise InputError(f"the argument `{name}` is given twice")
        found[name] = _json_value(name, text) if literal else text
    return found


def _json_value(name: str, text: str) -> object:
    from broker.cli.jsontext import read_json

    try:
        return read_json(text)
    except InputError as error:
        raise InputError(f"the argument `{name}`: {error}") from None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def folder(typed: str | None, base: str | None = None) -> str:
    """
    Return the workspace that is meant: absolute, or a Windows spelling left as it is.

    ``base`` is where a relative folder starts: the current folder when it is not given.

    Raises:
        InputError: the current folder is gone, or an empty text was given.

    >>> folder("/srv/app/../web"), folder(r"C:\\\\ws")
    ('/srv/web', 'C:\\\\\\\\ws')
    """
    if typed == "":
        raise InputError("the workspace is an empty text: name a folder, or leave it out")
    if typed is not None and (typed.startswith("/") or _DRIVE.match(typed)):
        return os.path.normpath(typed) if typed.startswith("/") else typed
    try:
        return os.path.normpath(os.path.join(base or os.getcwd(), typed or ""))
    except FileNotFoundError:
        raise InputError(
            "the current folder does not exist any more: change to one that does"
        ) from None


def existing_folder(typed: str | None) -> str:
    """
    Return the workspace that is meant, which must be there.

    Raises:
        InputError: there is no such folder.
    """
    found = folder(typed)
    if not _DRIVE.match(found) and not os.path.isdir(found):
        raise InputError(f"no such folder: `{found}`")
    return found


def file_bytes(name: str, what: str) -> bytes:
    """
    Return the content of a small file, or of stdin for ``-``.

    Raises:
        InputError: it cannot be read, or is far larger than a ``what`` can be.
    """
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
        else:
            with open(name, "rb") as stream:
                data = stream.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read {what} `{name}`: {reason.lower()}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise InputError(f"`{name}` is too large for {what}")
    return data


def verification_key(typed: str) -> VerifyKey:
    """
    Return the public key that is meant: its one line of text, or a file that holds it.

    Raises:
        InputError: it is neither.
    """
    from broker.receipt.signing import VerifyKey

    if typed.count("+") >= 2 and not os.path.lexists(typed):
        return VerifyKey.parse(typed)
    content = file_bytes(typed, "the verification key")
    try:
        return VerifyKey.parse(content.decode("utf-8"))
    except (UnicodeDecodeError, InputError) as error:
        raise InputError(f"`{typed}` holds no verification key: {error}") from None
