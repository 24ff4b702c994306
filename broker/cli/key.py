"""
`broker key`: which keys this installation signs with, and the public one that others verify with.

Decided here: what is shown of keys: names and public halves, never a secret. Not decided here:
how keys are kept (``broker.receipt.keyring``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import auditorkey
from broker.cli.exits import ALLOWED
from broker.cli.output import json_out, out, printable, table
from broker.cli.typed import Json
from broker.errors import InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.keys import Key
    from broker.receipt.signing import SigningKey

_CODES = "Exit code: 0 done, 2 no key, or one that is not safe to use."
SHOW_EXAMPLES = f"""\
\b
Examples:
  broker key show
  broker key show --vkey > broker.vkey      the public key, for whoever verifies your receipts
  broker key show --json

\b
The line key signs every line and stays here: whoever has it can forge. The signing key signs
checkpoints; its public half (the vkey) lets anyone verify, and nobody forge. Compare the
fingerprint over another channel than the one the vkey came by.
{_CODES}
"""
NEW_EXAMPLES = f"""\
\b
Examples:
  broker key new            before the first session, to give the public key away early
  broker key new --json

\b
`broker run` makes the keys too. Keys that exist are left alone: `broker key rotate` changes them.
{_CODES}
"""
ROTATE_EXAMPLES = f"""\
\b
Examples:
  broker key rotate
  broker key rotate --json

\b
Both keys are changed, by a row of the ledger that the outgoing key signs. Receipts of before
verify as they did: the old line key and the old vkey go to the archive. The old seed is gone, so
nobody signs with it any more. Give the new vkey to whoever verifies what comes from here on.
No session may be running. A change that was cut off is finished first.
{_CODES}
"""
ARCHIVE_EXAMPLES = f"""\
\b
Examples:
  broker key archive
  broker key archive --json

\b
Old line keys stay, to verify old receipts with. Of old signing keys only the public half stays.
What lies in the archive is believed only where the ledger says that it was in use.
{_CODES}
"""

app = typer.Typer(
    help="Show, make and change the keys that sign receipts.",
    epilog=_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    vkey: Annotated[
        bool, typer.Option("--vkey", help="Print the public key alone, on one line.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show the keys in use: names, fingerprint, and the public key."""
    from broker.home import Home
    from broker.receipt.keyring import public_key

    home = Home.find(os.environ)
    if vkey:
        try:
            out(public_key(home).vkey)
        except UnverifiableError as error:
            raise _helped(error) from error
        return ALLOWED
    key, signing = _in_use(home)
    return _tell(home, key, signing, as_json)


@app.command("new", epilog=NEW_EXAMPLES)
def new(
    old_is_lost: Annotated[
        bool,
        typer.Option("--old-is-lost", help="Go on although sessions of a lost key are there."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Make the keys of an installation that has none."""
    from broker.home import Home
    from broker.receipt.keyring import line_key_path, signing_key_path
    from broker.receipt.keys import load_or_create_key
    from broker.receipt.signing import load_or_create_signing_key

    home = Home.find(os.environ)
    line, signing = line_key_path(home), signing_key_path(home)
    if os.path.lexists(line) and os.path.lexists(signing):
        raise InputError("there are keys already: `broker key rotate` changes them")
    lost = not os.path.lexists(line) and any(home.heads.glob("*"))
    if lost and not old_is_lost:
        raise InputError(
            f"there are sessions and their key `{line}` is gone: put it back from a copy, since "
            "a new one makes all of them look forged; where there is none, `broker key new "
            "--old-is-lost`, and then `broker receipt adopt --ledger --reason TEXT`"
        )
    return _tell(home, load_or_create_key(line), load_or_create_signing_key(signing), as_json)


@app.command("rotate", epilog=ROTATE_EXAMPLES)
def rotate(as_json: Json = False) -> int:
    """Change both keys, and archive the old ones."""
    import time

    from broker.home import Home
    from broker.receipt.rotation import finish
    from broker.receipt.rotation import rotate as rotated
    from broker.sessions.recovery import seal_abandoned

    home = Home.find(os.environ)
    finish(home)
    key, _ = _in_use(home)
    _refuse_running(home)
    for old in seal_abandoned(home, key, time.time_ns):
        if old.fault:
            raise InputError(f"session `{old.sid}` is not ended: {printable(old.fault)}")
    changed = rotated(home, time.time_ns(), may=lambda: _refuse_unended(home))
    key, signing = _in_use(home)
    if as_json:
        return _tell(home, key, signing, as_json)
    out(f"changed: line key {changed.kid_from} to {changed.kid_to}")
    out("archived: the old line key and the old vkey; the old seed is gone")
    out()
    return _tell(home, key, signing, as_json)


def _refuse_running(home: Home) -> None:
    from broker.sessions.alive import running

    busy = running(home.sessions)
    if busy:
        raise InputError(f"session `{busy[0]}` is running: end it first")


def _refuse_unended(home: Home) -> None:
    """Refuse where a session has begun since the abandoned ones were sealed, and is not over."""
    from broker.sessions.alive import abandoned

    _refuse_running(home)
    for sid, lock in abandoned(home.sessions):
        lock.drop()
        raise InputError(f"session `{sid}` was killed meanwhile: try again, and it is sealed first")


@app.command("archive", epilog=ARCHIVE_EXAMPLES)
def archive(as_json: Json = False) -> int:
    """List the keys that were in use before."""
    from broker.home import Home
    from broker.receipt.keyring import archive as archived

    found = archived(Home.find(os.environ))
    if as_json:
        json_out(
            [{"name": f.name, "path": os.fspath(f.path), "since": _day(f.since)} for f in found]
        )
    elif not found:
        out("no key was ever changed here")
    else:
        rows = [(f.name, _day(f.since), os.fspath(f.path)) for f in found]
        for line in table(rows, ("key", "archived", "file")):
            out(line)
    return ALLOWED


def _in_use(home: Home) -> tuple[Key, SigningKey]:
    from broker.receipt.keyring import line_key_path, signing_key_path
    from broker.receipt.keys import load_key
    from broker.receipt.rotation import unfinished
    from broker.receipt.signing import load_signing_key

    if unfinished(home):
        raise UnverifiableError(
            "a change of keys was cut off: `broker key rotate` or the next session finishes it",
            code="unverifiable.rotation",
        )
    try:
        return load_key(line_key_path(home)), load_signing_key(signing_key_path(home))
    except UnverifiableError as error:
        raise _helped(error) from error


def _helped(error: UnverifiableError) -> UnverifiableError:
    if error.code != "unverifiable.missing":
        return error
    return UnverifiableError(f"{error}: `broker key new` makes what is missing", code=error.code)


def _tell(home: Home, key: Key, signing: SigningKey, as_json: bool) -> int:
    from broker.receipt.keyring import line_key_path, signing_key_path

    line, seed = line_key_path(home), signing_key_path(home)
    if as_json:
        json_out(
            {
                "line": {"kid": key.kid, "path": os.fspath(line), "since": _since(line)},
                "signing": {
                    "name": signing.name,
                    "key_id": signing.key_id.hex(),
                    "vkey": signing.vkey,
                    "fingerprint": signing.public.fingerprint,
                    "path": os.fspath(seed),
                    "since": _since(seed),
                },
            }
        )
        return ALLOWED
    rows = [
        ("line key", key.kid, _since(line), os.fspath(line)),
        ("signing key", signing.name, _since(seed), os.fspath(seed)),
    ]
    for text in table(rows, ("", "name", "since", "secret file")):
        out(text)
    out()
    out(f"fingerprint  {signing.public.fingerprint}")
    out(f"vkey         {signing.vkey}")
    return ALLOWED


def _since(path: Path) -> str:
    return _day(path.lstat().st_mtime_ns)


def _day(at: int) -> str:
    from broker.instants import format_instant

    return format_instant(at // 10**9 * 10**9)


app.command("auditor", epilog=auditorkey.EXAMPLES)(auditorkey.auditor)
