"""
The keys of one installation: those in use, and those that were in use before.

Decided here: where each lies, and which public keys are believed. Not decided here: how keys are
changed (``rotation``), what a safe file is (``keys``, ``signing``).

    data/keys/receipt.key             the secret of lines, heads and tickets
    data/keys/signing.key             the seed of the signing key
    data/keys/signing.vkey            its public half
    data/keys/archive/<kid>.key       a secret that was in use, to verify with
    data/keys/archive/<key id>.vkey   a public key that was in use; its seed is destroyed

Rules a maintainer keeps:

- Nothing is believed for lying in the archive. A key that was in use before is believed because
  rows of the ledger lead from it to the one in use now, each signed with the key it replaces.
- A key that was rotated away vouches for no session that began after that.
- Nothing here makes a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from broker.errors import Break, InputError
from broker.home import Home
from broker.receipt.keys import Key, load_key
from broker.receipt.signing import VerifyKey, load_verify_key

LINE_KEY: Final = "receipt.key"
SIGNING_KEY: Final = "signing.key"
PUBLIC_KEY: Final = "signing.vkey"
ARCHIVE: Final = "archive"


def line_key_path(home: Home) -> Path:
    """Return where the secret of lines, heads and tickets lies."""
    return home.keys / LINE_KEY


def signing_key_path(home: Home) -> Path:
    """Return where the seed of the signing key lies."""
    return home.keys / SIGNING_KEY


def public_key(home: Home) -> VerifyKey:
    """
    Return the public half of the signing key in use: what this installation pins.

    Raises:
        UnverifiableError: missing, unsafe, or not a key.
    """
    return load_verify_key(home.keys / PUBLIC_KEY)


class Rotated(Protocol):
    """One change of keys, as a verified row of the ledger tells it."""

    @property
    def kid_from(self) -> str:
        """The line key that was in use before; it has signed the row."""

    @property
    def kid_to(self) -> str:
        """The line key in use from there on."""

    @property
    def vkey_from(self) -> str:
        """The signing key that was in use before, as text."""

    @property
    def vkey_to(self) -> str:
        """The signing key in use from there on, as text."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """
    The names of all keys that count, from the first to the one in use.

    ``kids`` names the line keys and ``publics`` the signing keys; the two are changed together.
    """

    kids: tuple[str, ...]
    publics: tuple[VerifyKey, ...]

    @classmethod
    def of(cls, kid: str, public: VerifyKey, rotations: Sequence[Rotated]) -> Keyring:
        """
        Return the keys that rotations lead from, to the ones in use.

        Args:
            kid: the line key in use.
            public: the signing key in use, as this installation pins it.
            rotations: the rows of a ledger that verified, in order.

        Raises:
            Break: they do not form one chain that ends at the keys in use (``kid``).
        """
        kids, publics = [kid], [public]
        for row in reversed(rotations):
            if (row.kid_to, row.vkey_to) != (kids[0], publics[0].vkey):
                raise Break("kid", "the rotations of keys do not lead to the ones in use")
            kids.insert(0, row.kid_from)
            publics.insert(0, _public(row.vkey_from))
        return cls(tuple(kids), tuple(publics))

    def vouching(self, kid: str) -> tuple[VerifyKey, ...]:
        """
        Return the signing keys that may vouch for a session begun under the line key ``kid``.

        Those are the one in use then and all later ones: a session may be sealed after a
        rotation, and none may be made up with a key that was rotated away before.

        Raises:
            Break: no such line key was ever in use (``kid``).
        """
        if kid not in self.kids:
            raise Break("kid", f"key `{kid}` was never in use here")
        return self.publics[self.kids.index(kid) :]


def _public(vkey: str) -> VerifyKey:
    try:
        return VerifyKey.parse(vkey)
    except InputError as error:
        raise Break("kid", f"a rotation names what is no key: {error}") from error


def archived_key(home: Home, kid: str) -> Key | None:
    """
    Return the line key of that name from the archive; whether it counts, the ledger says.

    Raises:
        UnverifiableError: it is there, and is unsafe.
    """
    path = home.keys / ARCHIVE / f"{kid}.key"
    if not path.is_file():
        return None
    key = load_key(path)
    return key if key.kid == kid else None


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file in the archive, by its name alone: nothing says that it was ever in use."""

    name: str
    path: Path
    since: int  # when it was put there, in nanoseconds


def archive(home: Home) -> list[ArchivedFile]:
    """Return what lies in the archive, by name."""
    folder = home.keys / ARCHIVE
    found: Iterable[Path] = sorted(folder.iterdir()) if folder.is_dir() else ()
    return [ArchivedFile(path.name, path, path.lstat().st_mtime_ns) for path in found]
