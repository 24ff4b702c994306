"""
`broker receipt` from outside, as an auditor meets it: a process, files, text and an exit code.

Every option is tried in a process of its own, where it must change the answer, and where it must
not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.disk import DISK, make_private_folder
from broker.receipt.keyring import PUBLIC_KEY
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from tests.console import Said, process
from tests.receiptkit import AT, KEY, SECOND, Scene, new_receipts

SIGNER = SigningKey.of(bytes(range(32)))
Answer = Callable[..., Said]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a key and three sessions: `s1` sealed, `s2` and `s3` open."""
    place = tmp_path / "home"
    Scene.at(place)
    keys = Home.find({"BROKER_HOME": str(place)}).keys
    make_private_folder(keys)
    DISK.replace(keys / KEY_NAME, KEY.secret)
    return place


@pytest.fixture
def scene(home: Path) -> Scene:
    """The same sessions, to be attacked."""
    return Scene(new_receipts(home))


@pytest.fixture
def ask(home: Path) -> Answer:
    """Run `broker receipt` with that home."""

    def run(*words: str | Path) -> Said:
        return process("receipt", *map(str, words), env={"BROKER_HOME": str(home)})

    return run


@pytest.fixture
def elsewhere(tmp_path: Path) -> Answer:
    """Run `broker receipt` on a machine that has no installation."""

    def run(*words: str | Path) -> Said:
        env = {"BROKER_HOME": str(tmp_path / "nothing")}
        return process("receipt", *map(str, words), env=env)

    return run


def last_line(said: Said) -> str:
    """Return what stands at the end, which states the verdict."""
    return said.out.splitlines()[-1]


def reason(said: Said) -> str:
    """Return the reason of a break, as the last line gives it; the exit code must be 1."""
    assert said.code == 1, said
    return last_line(said).removeprefix("not verified (").partition(")")[0]


def sign(scene: Scene, home: Path, sid: str, size: int) -> Path:
    """Sign a checkpoint of a session, where the broker keeps it, and pin the public key."""
    places = Home.find({"BROKER_HOME": str(home)})
    tree = Frontier()
    for line in scene.lines(sid)[:size]:
        tree.append(line)
    make_private_folder(places.checkpoints)
    note = sign_checkpoint(SIGNER, of_receipt(sid), size, tree.root())
    DISK.replace(places.checkpoints / sid, note)
    DISK.replace(places.keys / PUBLIC_KEY, f"{SIGNER.vkey}\n".encode())
    return places.checkpoints / sid


def without_seal(scene: Scene) -> None:
    """Drop the seal of `s1`, as an attacker without the key can."""
    scene.put("s1", scene.lines("s1")[:-1])


# ── what a session comes to ──


def test_verify(ask: Answer) -> None:
    """A whole receipt: the head to write down, the verdict last, and 0."""
    said = ask("s1", "--verify")
    assert (said.code, said.err) == (0, "")
    assert last_line(said) == "verified: SEALED, 12 lines, level mac, completeness KNOWN"


def test_t04_require_seal(ask: Answer, scene: Scene) -> None:
    """T04: without the head a dropped seal verifies; who demands one finds it missing."""
    assert ask("s1", "--verify", "--require-seal", "--no-head").code == 0
    without_seal(scene)
    assert reason(ask("s1", "--verify")) == "truncated"
    assert "OPEN" in last_line(ask("s1", "--verify", "--no-head"))
    said = ask("s1", "--verify", "--require-seal", "--no-head")
    assert reason(said) == "not_sealed"
    assert f"line 11, byte offset {len(scene.content('s1'))}" in said.out


def test_t02_no_head(ask: Answer, scene: Scene) -> None:
    """T02: without the head a receipt cut at a line's end verifies, and says what is unknown."""
    scene.put("s2", scene.lines("s2")[:6])
    assert reason(ask("s2", "--verify")) == "truncated"
    said = ask("s2", "--verify", "--no-head")
    assert said.code == 0
    assert last_line(said) == "verified: OPEN, 6 lines, level mac, completeness UNKNOWN"
    assert "may be missing at the end" in said.out


def test_expect_head(ask: Answer, scene: Scene) -> None:
    """A head written down last time is met as long as nothing before it changed."""
    told = ask("s2", "--verify").out.splitlines()[-2].split()
    assert told[0] == "head"
    assert ask("s2", "--verify", "--expect-head", told[1]).code == 0
    early = f"5:{sha256(scene.lines('s2')[4]).hexdigest()}"
    assert ask("s2", "--verify", "--expect-head", early).code == 0
    assert reason(ask("s2", "--verify", "--expect-head", f"5:{'0' * 64}")) == "fork"
    scene.put("s2", scene.lines("s2")[:6])
    said = ask("s2", "--verify", "--no-head", "--expect-head", told[1])
    assert reason(said) == "truncated"


def test_d09_continue(ask: Answer, scene: Scene) -> None:
    """D09: damage is named where it is; with --continue everything behind it is checked too."""
    lines = scene.lines("s1")
    for n in (4, 7):
        lines[n] = lines[n][:50] + bytes([lines[n][50] ^ 4]) + lines[n][51:]
    scene.put("s1", lines)
    offsets = [sum(len(line) + 1 for line in lines[:n]) for n in (4, 7)]
    assert reason(ask("s1", "--verify")) == "mac"
    said = ask("s1", "--verify", "--continue")
    assert reason(said) == "mac"
    places = [(4, offsets[0]), (7, offsets[1])]
    for line, offset in places:
        assert f"    mac at line {line}, byte offset {offset}: " in said.out
    assert last_line(said).endswith(f"line 4, byte offset {offsets[0]}, and 1 further break")
    found = ask("s1", "--verify", "--continue", "--json").json()
    assert [(each["line"], each["offset"]) for each in found["breaks"]] == places
    assert found["break"] == found["breaks"][0]
    assert last_line(ask("s1", "--continue")) == last_line(said)


def test_continue_of_a_whole_receipt_changes_nothing(ask: Answer) -> None:
    """Where there is no break, --continue says what is said without."""
    assert ask("s1", "--verify", "--continue").out == ask("s1", "--verify").out


# ── what is not read again, or not all of it ──


def test_y03_since(ask: Answer, scene: Scene, tmp_path: Path) -> None:
    """Y03: what an earlier pass verified is trusted since then, which is said; not beyond."""
    state = tmp_path / "kept"
    said = ask("s2", "--since", state)
    assert (said.code, "not read again" in said.out) == (0, False)
    with scene.receipts.resume("s2", at=0) as receipt:
        receipt.append("note", {"text": "new"}, at=AT + 60 * SECOND)
    said = ask("s2", "--since", state)
    assert said.code == 0
    assert "    11 lines were not read again: they verified before, all of them" in said.out
    assert last_line(said) == "verified: OPEN, 12 lines, level mac, completeness KNOWN"
    lines = scene.lines("s2")
    scene.put("s2", [*lines[:3], lines[3].replace(b"main", b"mine"), *lines[4:]])
    found = ask("s2", "--since", state, "--json").json()
    assert (found["verified"], found["verdict"]["trusted_before"]) == (True, 12)
    assert found["verdict"]["trusted_since"].startswith("20")
    assert reason(ask("s2", "--verify")) == "mac"
    before = state.read_bytes()
    scene.put("s2", lines[:9])
    assert reason(ask("s2", "--since", state, "--no-head")) == "truncated"
    assert state.read_bytes() == before


def test_y02_a_forged_state(ask: Answer, tmp_path: Path) -> None:
    """Y02: a state that the verifier did not write is told, and everything is verified."""
    state = tmp_path / "kept"
    state.write_text('{"n":11}\n')
    said = ask("s2", "--since", state)
    assert said.code == 0
    assert "every line was verified, and it was written anew" in said.out
    assert "11 lines were not read again" in ask("s2", "--since", state).out
    state.unlink()
    state.symlink_to(tmp_path / "aside")
    said = ask("s2", "--since", state)
    assert (said.code, said.out) == (2, "")


def test_quick_and_jobs(ask: Answer, scene: Scene) -> None:
    """In haste or by many processes, the verdict is the same; haste is said."""
    plain = ask("s1", "--verify").out
    for words in (("--jobs", "1"), ("--jobs", "3")):
        assert ask("s1", "--verify", *words).out == plain
    said = ask("s1", "--quick", "--jobs", "2")
    assert "authenticated and not read" in said.out
    assert last_line(said) == plain.splitlines()[-1]
    without_seal(scene)
    for words in (("--quick",), ("--verify", "--jobs", "3"), ("--verify", "--jobs", "1")):
        assert reason(ask("s1", *words)) == "truncated"


# ── levels ──


def test_y07_only_the_chain(ask: Answer, home: Path, scene: Scene) -> None:
    """Y07: without the key there is no verdict, unless only the chain is asked for."""
    (home / "data" / "keys" / KEY_NAME).unlink()
    assert (ask("s1", "--verify").code, ask("s1").code) == (2, 2)
    for words in (("s1", "--verify"), ("s1",), (scene.path("s1"),)):
        said = ask(*words, "--level", "chain")
        assert said.code == 0
        assert last_line(said) == "verified: SEALED, 12 lines, level chain, completeness UNKNOWN"
        assert "nobody vouches" in said.out
        assert "Read" not in said.out
    lines = scene.lines("s1")
    scene.put("s1", [*lines[:4], lines[4].replace(b"main", b"mine"), *lines[5:]])
    assert reason(ask("s1", "--level", "chain")) == "prev"


def test_signed(ask: Answer, home: Path, scene: Scene) -> None:
    """A checkpoint over all lines is level signed; demanded and absent, it is a break."""
    assert reason(ask("s1", "--verify", "--level", "signed")) == "no_checkpoint"
    sign(scene, home, "s1", 12)
    for words in ((), ("--level", "signed"), ("--level", "mac")):
        said = ask("s1", "--verify", *words)
        assert said.code == 0
        assert last_line(said) == "verified: SEALED, 12 lines, level signed, completeness KNOWN"
        assert f"signed by {SIGNER.name}" in said.out
    assert reason(ask("s1", "--verify", "--level", "anchored")) == "no_anchor"


def test_signed_without_the_secret(ask: Answer, home: Path, scene: Scene) -> None:
    """When the key is lost, the signature still holds the record, and the tags are not claimed."""
    sign(scene, home, "s1", 12)
    (home / "data" / "keys" / KEY_NAME).unlink()
    assert ask("s1", "--verify").code == 2
    said = ask("s1", "--verify", "--level", "signed")
    assert said.code == 0
    assert "tags were not checked" in said.out
    assert "refused    Read" in ask("s1", "--level", "signed").out
    assert ask("s", "--verify", "--level", "signed").code == 2
    assert ask("--verify", "--level", "signed").code == 2


def test_an_older_checkpoint_of_an_open_session_is_told(
    ask: Answer, home: Path, scene: Scene
) -> None:
    """What the checkpoint does not cover yet is said; after the seal it is a break."""
    sign(scene, home, "s2", 7)
    said = ask("s2", "--verify")
    assert said.code == 0
    assert "the checkpoint covers 7 of 11 lines so far" in said.out
    sign(scene, home, "s1", 7)
    assert reason(ask("s1", "--verify")) == "checkpoint_old"


# ── an auditor's copy ──


@pytest.fixture
def copy(home: Path, scene: Scene, tmp_path: Path) -> Path:
    """A folder as it is handed to an auditor: receipt, head, checkpoint, both keys."""
    place = tmp_path / "copy"
    make_private_folder(place)
    shutil.copy(sign(scene, home, "s1", 12), place / "checkpoint")
    shutil.copy(scene.path("s1"), place / "receipt.jsonl")
    shutil.copy(scene.head("s1"), place / "head")
    shutil.copy(home / "data" / "keys" / KEY_NAME, place / "key")
    shutil.copy(home / "data" / "keys" / PUBLIC_KEY, place / "broker.vkey")
    return place


@pytest.mark.parametrize("public", ["file", "text"])
def test_a_copy_without_the_secret(elsewhere: Answer, copy: Path, public: str) -> None:
    """Receipt, checkpoint and public key are enough, on a machine that has nothing else."""
    vkey = copy / "broker.vkey" if public == "file" else SIGNER.vkey
    words = (copy / "receipt.jsonl", "--checkpoint", copy / "checkpoint", "--vkey", vkey)
    said = elsewhere(*words, "--verify")
    assert (said.code, said.err) == (0, "")
    assert last_line(said) == "verified: SEALED, 12 lines, level signed, completeness KNOWN"
    assert elsewhere(*words).out.count("allowed    Read") == 6
    lines = (copy / "receipt.jsonl").read_bytes().split(b"\n")
    lines[4] = lines[4].replace(b"main", b"mine")
    (copy / "receipt.jsonl").write_bytes(b"\n".join(lines))
    said = elsewhere(*words)
    assert reason(said) == "prev"
    assert "allowed" not in said.out


@pytest.mark.parametrize("left", [b"", b'{"at":"20'])
def test_a_copy_that_was_emptied(elsewhere: Answer, copy: Path, left: bytes) -> None:
    """T05: who holds the checkpoint alone sees that lines are gone, and a fragment is no line."""
    (copy / "receipt.jsonl").write_bytes(left)
    words = (copy / "receipt.jsonl", "--checkpoint", copy / "checkpoint", "--vkey", SIGNER.vkey)
    assert reason(elsewhere(*words)) == ("torn" if left else "truncated")
    with_key = (copy / "receipt.jsonl", "--key-file", copy / "key")
    assert reason(elsewhere(*with_key, "--head", copy / "head")) == "truncated"
    said = elsewhere(*with_key, "--no-head", "--json")
    assert said.code == (1 if left else 2)
    assert ((said.json()["break"] or {}).get("reason")) == ("torn" if left else None)


def test_a_copy_under_another_public_key(elsewhere: Answer, copy: Path) -> None:
    """P04: a key that did not sign it vouches for nothing, whatever its name."""
    other = SigningKey.of(bytes(range(1, 33))).vkey
    words = (copy / "receipt.jsonl", "--checkpoint", copy / "checkpoint")
    assert reason(elsewhere(*words, "--vkey", other)) == "checkpoint_sig"
    assert elsewhere(*words, "--vkey", other, "--vkey", SIGNER.vkey).code == 0
    assert elsewhere(*words).code == 2


def test_a_copy_with_the_secret(elsewhere: Answer, copy: Path) -> None:
    """With the key and the head, the level is mac; with the checkpoint too, signed."""
    words = (copy / "receipt.jsonl", "--verify", "--key-file", copy / "key")
    said = elsewhere(*words, "--head", copy / "head")
    assert last_line(said) == "verified: SEALED, 12 lines, level mac, completeness KNOWN"
    said = elsewhere(*words, "--no-head")
    assert last_line(said) == "verified: SEALED, 12 lines, level mac, completeness UNKNOWN"
    both = ("--checkpoint", copy / "checkpoint", "--vkey", copy / "broker.vkey")
    said = elsewhere(*words, "--head", copy / "head", *both)
    assert last_line(said) == "verified: SEALED, 12 lines, level signed, completeness KNOWN"
    assert "tags were not checked" not in said.out


def test_a_copy_on_its_own_machine(ask: Answer, copy: Path) -> None:
    """Where the installation is, its keys are used when none is named."""
    said = ask(copy / "receipt.jsonl", "--verify", "--head", copy / "head")
    assert (said.code, "level mac" in said.out) == (0, True)
    said = ask(copy / "receipt.jsonl", "--verify", "--checkpoint", copy / "checkpoint")
    assert (said.code, "level signed" in said.out) == (0, True)


def test_words_that_leave_something_open(elsewhere: Answer, ask: Answer, copy: Path) -> None:
    """What was not said is asked for, with the way to say it; nothing is claimed meanwhile."""
    file = copy / "receipt.jsonl"
    for said, hint in (
        (elsewhere(file), "--key-file FILE"),
        (elsewhere(file, "--key-file", copy / "key"), "--no-head"),
        (elsewhere(file, "--vkey", SIGNER.vkey), "--checkpoint FILE"),
        (elsewhere(file, "--vkey", SIGNER.vkey, "--head", copy / "head"), "--key-file"),
        (elsewhere(file, "--key-file", copy / "nokey", "--no-head"), "no key at"),
        (elsewhere(file, "--key-file", copy / "key", "--head", copy / "nohead"), "no head at"),
        (ask(file, "--checkpoint", copy / "none"), "no checkpoint at"),
        (ask(file, "--no-head", "--head", copy / "head"), "say one of them"),
        (ask(file, "--level", "chain", "--head", copy / "head"), "leave them out"),
        (ask("s1", "--expect-head", "12"), "N:HASH"),
        (ask("s1", "--level", "best"), "`--level`"),
        (ask("s1", "--refused", "--verify"), "--refused"),
        (ask("s1", "--quick", "--since", copy / "kept"), "--quick and --since"),
        (ask("s1", "--since", copy / "kept", "--level", "chain"), "needs the key"),
        (ask("s1", "--jobs", "-1"), "`--jobs`"),
        (ask(copy / "nothing.jsonl", "--no-head"), "no receipt at"),
        (ask(copy, "--no-head"), "not a regular file"),
    ):
        assert (said.code, said.out) == (2, ""), said
        assert hint in said.err, said.err
        assert len(said.err.splitlines()) == 1


def test_a_copy_of_another_session_keeps_its_name(ask: Answer, scene: Scene, copy: Path) -> None:
    """R04: a receipt put in the place of another one's copy is told by its own name."""
    shutil.copy(scene.path("s2"), copy / "receipt.jsonl")
    said = ask(copy / "receipt.jsonl", "--verify", "--head", copy / "head")
    assert reason(said) == "head_mac"
    said = ask(copy / "receipt.jsonl", "--verify", "--no-head")
    assert said.out.startswith("receipt s2 ")


def test_an_unsafe_copy(ask: Answer, copy: Path) -> None:
    """A file that others can write, a link, a key that others can read: no verdict."""
    file = copy / "receipt.jsonl"
    words = ("--verify", "--head", copy / "head", "--key-file", copy / "key")
    assert ask(file, *words).code == 0
    for spoil, mend in (
        (lambda: file.chmod(0o666), lambda: file.chmod(0o600)),
        (lambda: (copy / "key").chmod(0o644), lambda: (copy / "key").chmod(0o600)),
        (lambda: (copy / "head").chmod(0o666), lambda: (copy / "head").chmod(0o600)),
    ):
        spoil()
        assert (ask(file, *words).code, ask(file, *words, "--json").json()["verified"]) == (
            2,
            False,
        )
        mend()
    os.rename(file, copy / "aside")
    file.symlink_to(copy / "aside")
    assert ask(file, *words).code == 2


# ── what a program reads ──


def test_y05_the_answer_carries_its_own_verdict(ask: Answer, home: Path, scene: Scene) -> None:
    """Y05: with the exit code lost in a pipe, document and last line still state the verdict."""
    found = ask("s1", "--verify", "--json").json()
    assert found["verified"] is True
    assert (found["break"], found["breaks"], found["error"]) == (None, [], None)
    verdict = found["verdict"]
    assert (verdict["state"], verdict["level"], verdict["completeness"]) == (
        "SEALED",
        "mac",
        "KNOWN",
    )
    assert verdict["head"] == f"12:{sha256(scene.lines('s1')[-1]).hexdigest()}"
    without_seal(scene)
    found = ask("s1", "--json").json()
    assert (found["verified"], found["verdict"], found["break"]["reason"]) == (
        False,
        None,
        "truncated",
    )
    assert len(found["entries"]) == 11
    assert last_line(ask("s1")).startswith("not verified (truncated): ")
    (home / "data" / "keys" / KEY_NAME).unlink()
    said = ask("s1", "--json")
    assert said.code == 2
    assert (said.json()["verified"], said.json()["error"]["code"]) == (
        False,
        "unverifiable.missing",
    )


def test_a_long_record_is_one_document(home: Path, scene: Scene) -> None:
    """Written piece by piece, a document of thousands of entries is whole."""
    with scene.receipts.resume("s2", at=0) as receipt:
        for i in range(3_000):
            receipt.append("note", {"text": "x" * 500, "i": i}, at=0, durable=False)
    said = process("receipt", "s2", "--json", env={"BROKER_HOME": str(home)})
    found = said.json()
    assert [entry["n"] for entry in found["entries"]] == list(range(3_011))
    assert found["verified"] is True
