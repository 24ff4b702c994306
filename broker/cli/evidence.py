"""
Which record is meant on the command line, and what it is verified with.

Decided here: what is taken from this installation where nothing is said, and which words go
together. Not decided here: what any of it proves (``broker.receipt``).

Rules a maintainer keeps:

- No key, public or secret, ever comes from a receipt or from what lies beside it: it is named, or
  it is this installation's.
- Nothing is left out silently. A head that is not there is missed, unless the person says so.
- A file that was named and is not there is an error, never as if it had not been named.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.typed import verification_key
from broker.cli.wires import installation_key
from broker.errors import InputError, UnverifiableError
from broker.receipt.demand import Level
from broker.receipt.evidence import Evidence

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt import Key
    from broker.receipt.sealing import Auditor
    from broker.receipt.signing import VerifyKey


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed: a session or a file, and what to verify it with."""

    id: str | None = None
    level: Level | None = None
    key_file: str | None = None
    head: str | None = None
    no_head: bool = False
    checkpoint: str | None = None
    vkeys: tuple[str, ...] = ()
    auditor_key: str | None = None


def is_file(typed: str | None) -> bool:
    """
    Whether a typed word means a file, since no session's name has such characters.

    >>> is_file("k3v"), is_file("./k3v"), is_file("receipt.jsonl"), is_file(None)
    (False, True, True, False)
    """
    return typed is not None and ("/" in typed or "." in typed or os.sep in typed)


def evidence(asked: Asked, home: Home) -> Evidence:
    """
    Return the record that is meant, and what it is verified with.

    Raises:
        InputError: no such session, or words that do not go together.
        UnverifiableError: a file that was named is missing, or there is no key.
    """
    _check_words(asked)
    for typed, what in (
        (asked.key_file, "key"),
        (asked.head, "head"),
        (asked.checkpoint, "checkpoint"),
        (asked.auditor_key, "auditor's key"),
    ):
        if typed is not None and not os.path.lexists(typed):
            raise UnverifiableError(f"there is no {what} at `{typed}`", code="unverifiable.missing")
    return _of_file(asked, home) if is_file(asked.id) else _of_session(asked, home)


def _check_words(asked: Asked) -> None:
    if asked.no_head and asked.head:
        raise InputError("--head and --no-head: say one of them")
    given = (asked.key_file, asked.head, asked.checkpoint, asked.auditor_key, *asked.vkeys)
    if asked.level == "chain" and any(given):
        raise InputError("--level chain uses no key, head or checkpoint: leave them out")


# ── a session of this installation ──


def _of_session(asked: Asked, home: Home) -> Evidence:
    from broker.receipt import Receipts
    from broker.receipt.disk import check_unlinked

    key = _key(asked, home)
    if key is None:
        sid = _named(home, asked.id)
        path, head = home.sessions / sid / "receipt.jsonl", home.heads / sid
    else:
        receipts = Receipts(home, key)
        sid = receipts.find(asked.id)
        path, head = receipts.path(sid), receipts.head_path(sid)
    check_unlinked(*home.records(sid))
    if asked.level == "chain":
        return Evidence(path, sid, None)
    return Evidence(
        path,
        sid,
        key,
        _head(asked, head),
        home.checkpoints / sid if asked.checkpoint is None else Path(asked.checkpoint),
        _vkeys(asked, home),
        _auditor(asked),
    )


def _key(asked: Asked, home: Home) -> Key | None:
    """Return the secret; None where there is none and it can be done without."""
    from broker.receipt import load_key

    if asked.key_file is not None:
        return load_key(Path(asked.key_file))
    try:
        return installation_key(home)
    except UnverifiableError as error:
        dispensable = asked.level in ("chain", "signed") or asked.auditor_key is not None
        if error.code == "unverifiable.missing" and dispensable:
            return None
        raise


def _auditor(asked: Asked) -> Auditor | None:
    from broker.receipt.sealing import load_auditor

    return None if asked.auditor_key is None else load_auditor(Path(asked.auditor_key))


def _named(home: Home, name: str | None) -> str:
    """Return a session by its whole name: without the key, nothing else is looked up."""
    from broker.receipt.entry import check_sid

    if name is None:
        raise InputError("there is no key here: give the whole name of a session")
    if not os.path.lexists(home.sessions / check_sid(name)):
        raise InputError(f"there is no session `{name}`, and no key: give the whole name")
    return name


def _head(asked: Asked, usual: Path | None) -> Path | None:
    if asked.no_head:
        return None
    return usual if asked.head is None else Path(asked.head)


def _vkeys(asked: Asked, home: Home) -> tuple[VerifyKey, ...]:
    """Return the public keys that were named, else the one that this installation pins."""
    from broker.receipt.keyring import PUBLIC_KEY, public_key

    if asked.vkeys:
        return tuple(verification_key(typed) for typed in asked.vkeys)
    return (public_key(home),) if os.path.lexists(home.keys / PUBLIC_KEY) else ()


# ── a copy that somebody handed on ──


def _of_file(asked: Asked, home: Home) -> Evidence:
    from broker.receipt.untagged import stated_sid

    path = Path(asked.id or "")
    if asked.level == "chain":
        return Evidence(path, stated_sid(path), None)
    auditor = _auditor(asked)
    key = None if auditor is not None and asked.key_file is None else _key_for_copy(asked, home)
    head = _head(asked, None)
    checkpoint = None if asked.checkpoint is None else Path(asked.checkpoint)
    if key is None and auditor is None and head is not None:
        raise InputError("a head is read with the key: give --key-file too")
    if key is None and auditor is None and checkpoint is None:
        raise InputError("without the key, give --checkpoint FILE and the signer's --vkey")
    if head is None and checkpoint is None and not asked.no_head:
        raise InputError(
            "only a head or a checkpoint tells if the end is missing: give --head FILE or "
            "--checkpoint FILE, or accept that by --no-head"
        )
    vkeys = () if checkpoint is None else _vkeys(asked, home)
    sid = stated_sid(path, head, checkpoint)
    return Evidence(path, sid, key, head, checkpoint, vkeys, auditor)


def _key_for_copy(asked: Asked, home: Home) -> Key | None:
    """Return the secret for a copy; with public keys alone, none is used."""
    from broker.cli.wires import KEY_NAME

    if asked.key_file is None and asked.vkeys:
        return None
    if asked.key_file is None and not os.path.lexists(home.keys / KEY_NAME):
        raise UnverifiableError(
            "there is no key to verify with: give --key-file FILE, or --vkey and --checkpoint, or "
            "be content with --level chain",
            code="unverifiable.missing",
        )
    return _key(asked, home)
