"""A witness: what it is asked, and what its cosignature shows."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

from broker.anchors.anchor import AnchorError
from broker.anchors.witness import Witness, WitnessKey, cosigned, request
from broker.errors import Break, InputError
from tests.anchorkit import NOW_S, Log, WitnessServer

LATER = (NOW_S + 60) * 1_000_000_000


def test_a_log_that_grows_is_cosigned_each_time() -> None:
    """First seen, grown, and handed in twice: each checkpoint gets a cosignature that counts."""
    log = Log(20)
    with WitnessServer(log.key.public) as server:
        witness = Witness("w", server.url, server.vkey)
        for size in (3, 9, 9, 20):
            evidence = witness.submit(log.note(size), log.grown(size))
            found = witness.check(log.note(size), evidence, LATER)
            assert (found.by, found.at, found.warnings) == ("w", NOW_S * 1_000_000_000, ())


def test_a_log_that_was_cut_is_not() -> None:
    """A checkpoint of fewer lines than the witness has seen is a break, whoever signed it."""
    log = Log(20)
    with WitnessServer(log.key.public) as server:
        witness = Witness("w", server.url, server.vkey)
        witness.submit(log.note(9), log.grown(9))
        with pytest.raises(Break, match="has seen 9 lines and 5 are left"):
            witness.submit(log.note(5), log.grown(5))


@pytest.mark.parametrize("size", [9, 12])
def test_a_log_that_was_forked_is_not(size: int) -> None:
    """Another history of the same length, or one that goes on from another, is a break."""
    log = Log(20)
    with WitnessServer(log.key.public) as server:
        witness = Witness("w", server.url, server.vkey)
        witness.submit(log.note(9), log.grown(9))
        log.lines[2] = b"rewritten"
        with pytest.raises(Break, match="a fork"):
            witness.submit(log.note(size), log.grown(size))


def test_a_cosignature_by_somebody_else_does_not_count() -> None:
    """An unknown witness, and one that took the known one's name, leave the note uncosigned."""
    log = Log(3)
    with WitnessServer(log.key.public, name="stranger.example") as server:
        stranger = Witness("w", server.url, server.vkey)
        evidence = stranger.submit(log.note(3), log.grown(3))
    with WitnessServer(log.key.public) as known:
        witness = Witness("w", known.url, known.vkey)
        with pytest.raises(Break) as broken:
            witness.check(log.note(3), evidence, LATER)
        assert broken.value.reason == "quorum"
        mine = witness.submit(log.note(3), log.grown(3))
    for at in range(len(mine) - 60, len(mine) - 3):
        flipped = mine[:at] + bytes((mine[at] ^ 1,)) + mine[at + 1 :]
        with pytest.raises(Break):
            witness.check(log.note(3), flipped, LATER)


def test_a_cosignature_over_another_note_does_not_count() -> None:
    """Attestations moved to another checkpoint is a break."""
    log = Log(9)
    with WitnessServer(log.key.public) as server:
        witness = Witness("w", server.url, server.vkey)
        evidence = witness.submit(log.note(3), log.grown(3))
        with pytest.raises(Break, match="another one"):
            witness.check(log.note(9), evidence, LATER)


def test_a_time_in_the_future_is_told() -> None:
    """A witness whose clock is ahead still has seen the log; the time is only warned of."""
    log = Log(3)
    with WitnessServer(log.key.public) as server:
        server.now_s += 365 * 86_400
        witness = Witness("w", server.url, server.vkey)
        evidence = witness.submit(log.note(3), log.grown(3))
    assert "in the future" in witness.check(log.note(3), evidence, LATER).warnings[0]


def test_a_witness_that_is_away_or_refuses_is_no_evidence() -> None:
    """Nobody there, a log that it does not know, and a wrong address are told as that."""
    log = Log(3)
    with WitnessServer(Log(0, bytes(range(1, 33))).key.public) as server:
        vkey = server.vkey
        with pytest.raises(AnchorError, match="status 403"):
            Witness("w", server.url, vkey).submit(log.note(3), log.grown(3))
    for url in (server.url, "file:///etc/passwd", "nowhere"):
        with pytest.raises(AnchorError):
            Witness("w", url, vkey).submit(log.note(3), log.grown(3))


@pytest.mark.parametrize("text", ["", "a", "a+b", "a+00000000+BA==", "a b+0+BA=="])
def test_what_is_no_witnesss_key(text: str) -> None:
    """A text of another form is bad input."""
    with pytest.raises(InputError):
        WitnessKey.parse(text)


def test_a_key_of_checkpoints_is_no_key_of_cosignatures() -> None:
    """The two kinds have different numbers, so a log cannot witness itself with its own key."""
    with pytest.raises(InputError):
        WitnessKey.parse(Log(0).key.vkey)


def test_public_vectors(shared: Path) -> None:
    """A request and the signed text are spelled as in the published examples."""
    folder = shared / "vectors/c2sp-checkpoint"
    example = (folder / "witness_add_checkpoint_request.txt").read_bytes()
    head, _, note = example.partition(b"\n\n")
    first, *hashes = head.decode().split("\n")
    old = int(first.split()[1])
    assert request(note, old, lambda _: [b64decode(h) for h in hashes]) == example
    signed = (folder / "cosignature_v1_signed_message.txt").read_bytes()
    text = signed.decode().split("\n", 2)[2]
    assert cosigned(text, 1679315147) == signed
    assert json.loads((folder / "checkpoints.json").read_text())
