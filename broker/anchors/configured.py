"""
The anchors of one installation, as its configuration names them, and what is handed in to them.

Decided here: which anchor a setting makes, where a chain's lines lie, and that the newest
checkpoints are queued before anybody is asked. Not decided here: what a setting may say
(``broker.config``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from broker.anchors.anchor import Anchor
from broker.anchors.evidence import LEDGER, Attestations
from broker.anchors.git import GitRemote
from broker.anchors.submitting import Handed, InBackground, hand_in
from broker.anchors.timestamp import Authority
from broker.anchors.witness import Witness
from broker.config import AnchorSetting
from broker.errors import UnverifiableError
from broker.home import Home
from broker.receipt.checkpoint import Checkpoint, read_checkpoint
from broker.receipt.entry import check_sid

BRANCH = "receipts"


def anchors(settings: Sequence[AnchorSetting], home: Home) -> tuple[Anchor, ...]:
    """
    Return the anchors that a configuration names.

    Args:
        settings: checked already; see ``broker.config``.
        home: git's own repositories lie in its state folder.
    """
    return tuple(_made(setting, home) for setting in settings)


def _made(setting: AnchorSetting, home: Home) -> Anchor:
    given = setting.settings
    if setting.kind == "git":
        folder = home.state / "anchors" / f".{setting.name}.git"
        branch = given.get("branch", BRANCH)
        return GitRemote(setting.name, given["remote"], branch, folder)
    if setting.kind == "rfc3161":
        roots = (home.config / given["roots"]).expanduser()
        return Authority(setting.name, given["url"], roots)
    return Witness(setting.name, given["url"], given["vkey"])


def queue(home: Home, sids: Sequence[str]) -> None:
    """
    Put the newest checkpoints of sessions and of the ledger where they wait to be handed in.

    A chain without a checkpoint has nothing to hand in.

    Raises:
        UnverifiableError: a checkpoint's file is unsafe.
        StoreError: the queue cannot be written.
    """
    evidence = Attestations(home)
    places = [(sid, home.checkpoints / check_sid(sid)) for sid in sids]
    for of, path in (*places, (LEDGER, home.ledger / "checkpoint")):
        try:
            note = read_checkpoint(path)
        except UnverifiableError as error:
            if error.code == "unverifiable.missing":
                continue
            raise
        # Unverified here: an anchor of a note that nobody signed is worth nothing to anyone.
        text = note.decode("utf-8", "replace").rpartition("\n\n")[0] + "\n"
        evidence.keep_note(of, Checkpoint.parse(text).size, note)


def lines_of_chain(home: Home, of: str) -> Path:
    """Return where the lines of a session or of the ledger lie."""
    if of == LEDGER:
        return home.ledger / "receipt.jsonl"
    return home.sessions / check_sid(of) / "receipt.jsonl"


def hand_in_all(home: Home, settings: Sequence[AnchorSetting]) -> Iterator[Handed]:
    """
    Hand in everything that is pending; yield what became of each.

    Raises:
        UnverifiableError: a file of the evidence is unsafe.
    """
    return hand_in(Attestations(home), anchors(settings, home), partial(lines_of_chain, home))


def in_background(home: Home, settings: Sequence[AnchorSetting]) -> InBackground:
    """Return the same, to be started in a thread of its own."""
    return InBackground(partial(hand_in_all, home, settings))
