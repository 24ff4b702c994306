"""
Makes the accept and reject vectors of ``tests/vectors/receipt``: small files, always the same.

    python -m tests.standalone.vectors        writes them anew

Each case names the clauses it is about, holds the files, says what a verifier is given, and what
it must answer. Signing is done here with the library directly, by the page, so that a slip in
our own notes could not hide in both places.
"""

from __future__ import annotations

import json
import tempfile
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.receiptkit import AT, KEY, SECOND, body_of, new_receipts, rechained, signed

HOME = Path(__file__).resolve().parents[1] / "vectors" / "receipt"
SEED = bytes(range(64, 96))
SID = "k3v-1"
_SIGNER = Ed25519PrivateKey.from_private_bytes(SEED)
_PUBLIC = _SIGNER.public_key().public_bytes_raw()
NAME = f"capability-broker/{sha256(_PUBLIC).hexdigest()[:16]}"
_RAW = b"\x01" + _PUBLIC
_KEY_ID = sha256(NAME.encode() + b"\n" + _RAW).digest()[:4]
VKEY = f"{NAME}+{_KEY_ID.hex()}+{b64encode(_RAW).decode()}"

Case = dict[str, Any]
Lines = list[bytes]
ODD_TEXT = 'a"b\\c/\b\t\n\f\r\x00\x1f\x7f\u0085\u2028\u202eé\ud7ff\ue000\U0001f600'
DIGESTS = ["A" * 43, "b" * 43]


# ── the parts ──


def session(
    *data: dict[str, object], seal: str = "complete", level: str = "", kind: str = "note"
) -> tuple[Lines, bytes]:
    """Return the lines and the head of a session that holds these entries."""
    with tempfile.TemporaryDirectory() as place:
        receipts = new_receipts(Path(place))
        opening: dict[str, object] = {"agent": "an-agent"}
        if level:
            opening["level"] = level
        receipt = receipts.create(SID, opening=opening, at=AT)
        for i, each in enumerate(data, 1):
            receipt.append(kind, each, at=AT + i * SECOND)
        if seal:
            receipt.seal(seal, at=AT + 60 * SECOND)
        receipt.close()
        lines = receipts.path(SID).read_bytes().split(b"\n")[:-1]
        return lines, receipts.head_path(SID).read_bytes()


def joined(lines: Lines) -> bytes:
    """Return the file that holds these lines."""
    return b"".join(line + b"\n" for line in lines)


def tree_hash(lines: Lines) -> bytes:
    """Return the tree hash as the definition has it (R7.1)."""
    if not lines:
        return sha256(b"").digest()
    if len(lines) == 1:
        return sha256(b"\0" + lines[0]).digest()
    half = 1 << (len(lines) - 1).bit_length() - 1
    return sha256(b"\1" + tree_hash(lines[:half]) + tree_hash(lines[half:])).digest()


def path_to(lines: Lines, index: int) -> list[bytes]:
    """Return the inclusion proof as the definition has it (R7.2)."""
    if len(lines) == 1:
        return []
    half = 1 << (len(lines) - 1).bit_length() - 1
    if index < half:
        return [*path_to(lines[:half], index), tree_hash(lines[half:])]
    return [*path_to(lines[half:], index - half), tree_hash(lines[:half])]


def note(text: str, signer: Ed25519PrivateKey = _SIGNER) -> bytes:
    """Return a signed note (R8.2)."""
    raw = _KEY_ID + signer.sign(text.encode())
    return f"{text}\n\N{EM DASH} {NAME} {b64encode(raw).decode()}\n".encode()


def checkpoint(lines: Lines, sid: str = SID, size: str = "", root: bytes = b"") -> bytes:
    """Return a checkpoint over lines (R8.3)."""
    body = b64encode(root or tree_hash(lines)).decode()
    return note(f"{NAME}/receipt/{sid}\n{size or len(lines)}\n{body}\n")


def proof(lines: Lines, index: int, *, extra: bool = True, signed_note: bytes = b"") -> bytes:
    """Return the proof file of a line (R8.8)."""
    parts = ["c2sp.org/tlog-proof@v1"]
    if extra:
        parts.append(f"extra {b64encode(lines[index]).decode()}")
    parts += [f"index {index}", *(b64encode(each).decode() for each in path_to(lines, index))]
    return "\n".join([*parts, "", ""]).encode() + (signed_note or checkpoint(lines))


# ── the cases ──


def _text(name: str, content: bytes | None) -> Case:
    if content is None:
        return {}
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return {f"{name}_base64": b64encode(content).decode()}
    return {name: text}


def case(
    name: str,
    clauses: str,
    receipt: Lines | bytes,
    expect: Case,
    *,
    head: bytes | None = None,
    note: bytes | None = None,
    key: bool = True,
    **more: object,
) -> Case:
    """Return a case: its files, what a verifier is given, and what it must answer."""
    content = receipt if isinstance(receipt, bytes) else joined(receipt)
    given = [what for what, there in (("key", key), ("head", head), ("vkey", note)) if there]
    return {
        "name": name,
        "clauses": clauses.split(),
        "given": given,
        **more,
        **_text("receipt", content),
        **_text("head", head),
        **_text("checkpoint", note),
        "expect": expect,
    }


def verified(state: str, lines: int, level: str = "mac", known: bool = True) -> Case:
    """Return the answer to a receipt that verifies."""
    completeness = "KNOWN" if known else "UNKNOWN"
    return {"code": 0, "state": state, "level": level, "completeness": completeness, "lines": lines}


def broken(reason: str, line: int = 0, content: Lines | None = None) -> Case:
    """Return the answer to a receipt that does not verify; the lines before give the offset."""
    offset = len(joined((content or [])[:line]))
    return {"code": 1, "reason": reason, "line": line, "offset": offset}


UNTOLD: Case = {"code": 2}
ENTRIES: tuple[dict[str, object], ...] = ({"text": "one"}, {"text": "two"})


def accepted() -> list[Case]:
    """Return the cases that verify."""
    sealed, head = session(*ENTRIES)
    stopped, stopped_head = session(*ENTRIES, seal="interrupted")
    open_, open_head = session(*ENTRIES, seal="")
    promised, promised_head = session(*ENTRIES, seal="", level="signed")
    deep: Any = 1
    for _ in range(31):
        deep = [deep]
    odd, odd_head = session(
        {"text": ODD_TEXT},
        {"least": -(2**53) + 1, "most": 2**53 - 1, "zero": 0, "no": [False, None, {}, []]},
        {"deep": deep, "~": "", "": 0},
        {"_sd": DIGESTS},
        seal="",
    )
    blank_slot = open_head[:512] + bytes(512)
    beyond = rechained([*open_, open_[1]], SID, lambda n, fields: None)
    fragment = {"bytes": 9, "kept": "receipt.torn-0-0", "sha256": "0" * 64}

    def recover(n: int, fields: dict[str, Any]) -> None:
        if n == 3:
            fields.update(kind="recover", data=fragment)

    witness = "\N{EM DASH} a-witness AAAAAAAA\n".encode()
    return [
        case("sealed", "R3 R5 R6", sealed, verified("SEALED", 4), head=head),
        case("interrupted", "R9.7", stopped, verified("INTERRUPTED", 4), head=stopped_head),
        case("open", "R9.7", open_, verified("OPEN", 3), head=open_head),
        case("torn", "R2.3 R9.7", joined(open_) + b"{}", verified("TORN", 3), head=open_head),
        case("beyond the head", "R6.5", beyond, verified("OPEN", 4), head=open_head),
        case(
            "one slot never written",
            "R6.2",
            open_,
            verified("OPEN", 3),
            head=blank_slot if b'"n":3' in blank_slot else bytes(512) + open_head[512:],
        ),
        case("recovered", "R5.4", rechained(beyond, SID, recover), verified("OPEN", 4),
             head=open_head),
        case("every spelling", "R4 R12.1", odd, verified("OPEN", 5), head=odd_head),
        case("no head", "R9.7", sealed, verified("SEALED", 4, known=False)),
        case("chain alone", "R9.5", sealed, verified("SEALED", 4, "chain", known=False),
             key=False, level="chain"),
        case("signed", "R8 R9.5", sealed, verified("SEALED", 4, "signed"), key=False,
             note=checkpoint(sealed)),
        case("signed, with all", "R9.5", sealed, verified("SEALED", 4, "signed"), head=head,
             note=checkpoint(sealed)),
        case("signed, and by a witness", "R8.2", sealed, verified("SEALED", 4, "signed"),
             key=False, note=checkpoint(sealed) + witness),
        case("signed so far", "R9.3", open_, verified("OPEN", 3, "signed"), head=open_head,
             note=checkpoint(open_[:2])),
        case("signed and open", "R9.7", open_, verified("OPEN", 3, "signed", known=False),
             key=False, note=checkpoint(open_)),
        case("young", "R9.6", promised, verified("OPEN", 3), head=promised_head),
        case("promised and kept", "R9.6", promised, verified("OPEN", 3, "signed"),
             head=promised_head, note=checkpoint(promised)),
        case("a checkpoint of nothing", "R8.5", open_, verified("OPEN", 3), head=open_head,
             note=checkpoint([])),
    ]  # fmt: skip


Change = Callable[[bytes], bytes]
AT_TEXT = b'"at":"2026-11-30T08:00:02.000Z"'
# By a holder of the key, in line 2 of an open session: what is changed, and the reason.
FORGED: list[tuple[str, str, str, Change]] = [
    ("not UTF-8", "R4.1", "encoding", lambda b: b.replace(b"two", b"tw\xff")),
    ("overlong UTF-8", "R4.1", "encoding", lambda b: b.replace(b"two", b"\xc0\xaf")),
    ("too deep", "R4.3", "depth", lambda b: b.replace(b'"two"', b"[" * 32 + b"]" * 32)),
    ("not JSON", "R9.2", "json", lambda b: b.replace(b'"two"', b'"two",')),
    ("a key twice", "R4.2", "dupkey", lambda b: b.replace(b'"data":', b'"at":"","data":')),
    ("a key twice, escaped", "R4.2", "dupkey", lambda b: b.replace(b"{", b'{"\\u0061t":"",', 1)),
    ("a fraction", "R4.2", "number", lambda b: b.replace(b'"two"', b"1.0")),
    ("an exponent", "R4.2", "number", lambda b: b.replace(b'"two"', b"1e2")),
    ("not a number", "R4.2", "number", lambda b: b.replace(b'"two"', b"NaN")),
    ("2^53", "R4.2", "number", lambda b: b.replace(b'"two"', b"9007199254740992")),
    ("a key not ASCII", "R4.2", "schema", lambda b: b.replace(b'"text"', '"tëxt"'.encode())),
    ("minus zero", "R4.2", "canon", lambda b: b.replace(b'"two"', b"-0")),
    ("a blank", "R4.1", "canon", lambda b: b.replace(b'"data":', b'"data": ')),
    ("keys not sorted", "R4.1", "canon", lambda b: b'{"data":{},' + b[1:].replace(
        b'"data":{"text":"two"},', b"")),
    ("an escaped letter", "R4.1", "canon", lambda b: b.replace(b"two", b"tw\\u006f")),
    ("upper-case hex in an escape", "R4.1", "canon", lambda b: b.replace(b"two", b"\\u001F")),
    ("an escaped slash", "R4.1", "canon", lambda b: b.replace(b"two", b"\\/")),
    ("a lone surrogate", "R4.2", "canon", lambda b: b.replace(b"two", b"\\ud800")),
    ("a ninth key", "R3.1", "schema", lambda b: b'{"about":1,' + b[1:]),
    ("true for a number", "R4.4", "schema", lambda b: b.replace(b'"n":2', b'"n":true')),
    ("text for a number", "R4.4", "schema", lambda b: b.replace(b'"n":2', b'"n":"2"')),
    ("no such day", "R4.5", "schema", lambda b: b.replace(b"11-30", b"11-31")),
    ("a leap second", "R4.5", "schema", lambda b: b.replace(b":02.000", b":60.000")),
    ("no milliseconds", "R4.5", "schema", lambda b: b.replace(b":02.000Z", b":02Z")),
    ("another session", "R3.3", "sid", lambda b: b.replace(b"k3v-1", b"k3v-2")),
    ("another key's name", "R3.2", "kid", lambda b: b.replace(KEY.kid.encode(), b"0" * 16)),
    ("a number left out", "R3.1", "seq", lambda b: b.replace(b'"n":2', b'"n":3')),
    ("another link", "R3.5", "prev", lambda b: b[:-100] + b[-100:].replace(b"a", b"b")),
    ("no such kind", "R5.1", "kind", lambda b: b.replace(b'"note"', b'"begin"')),
    ("opened twice", "R5.2", "kind", lambda b: b.replace(b'"note"', b'"open"')),
    ("no fragment", "R5.4", "schema", lambda b: b.replace(b'"note"', b'"recover"')),
    ("a seal that lies", "R5.3", "seal", lambda b: b.replace(b'"note"', b'"seal"').replace(
        b'{"text":"two"}', b'{"n":2,"reason":"complete","root":"' + b"0" * 64 + b'"}')),
    ("digests not sorted", "R12.1", "schema", lambda b: b.replace(
        b'{"text":"two"}', json.dumps({"_sd": DIGESTS[::-1]}, separators=(",", ":")).encode())),
]  # fmt: skip


def forged() -> list[Case]:
    """Return the cases that take the key: the strict reading alone can see them."""
    lines, _ = session(*ENTRIES, seal="")
    made = []
    for name, clauses, reason, change in FORGED:
        body = body_of(lines[2])
        changed = change(body)
        assert changed != body, name
        found = [*lines[:2], signed(changed, SID)]
        made.append(case(name, clauses, found, broken(reason, 2, found)))
    other = rechained(lines, SID, lambda n, fields: fields["data"].pop("format", None))
    made.append(case("an open line of no format", "R5.2", other, broken("schema")))
    vague, _ = session(seal="", level="most")
    made.append(case("a promise that nobody knows", "R5.2", vague, broken("level")))
    return made


def rejected() -> list[Case]:
    """Return the cases that do not verify."""
    sealed, head = session(*ENTRIES)
    open_, open_head = session(*ENTRIES, seal="")
    promised, promised_head = session(*({"i": i} for i in range(64)), seal="", level="signed")
    anchored, anchored_head = session(seal="", level="anchored")

    def edited(n: int, change: Change) -> Lines:
        return [*sealed[:n], change(sealed[n]), *sealed[n + 1 :]]

    after = rechained([*sealed, sealed[1]], SID, lambda n, fields: None)
    fork = rechained(open_, SID, lambda n, fields: fields.update(at="2026-11-30T09:00:00.000Z"))
    upper = edited(1, lambda line: line[:-66] + line[-66:-2].upper() + line[-2:])
    long = signed(body_of(open_[2]).replace(b"two", b"x" * 2**20), SID)
    spoilt = bytes(512) + head[512:] if b'"n":4' in head[512:] else head[:512] + bytes(512)
    spoilt = spoilt.replace(bytes(512), b"x" + bytes(511))
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
    good = checkpoint(sealed).decode()
    body = good.partition("\n\n")[0] + "\n"
    return [
        case("a word", "R3.4", edited(1, lambda b: b.replace(b"one", b"ten")),
             broken("mac", 1, sealed), head=head),
        case("a tag in upper case", "R3.4", upper, broken("format", 1, sealed), head=head),
        case("a short tag", "R3.4", edited(1, lambda b: b[:-34] + b[-2:]),
             broken("format", 1, sealed), head=head),
        case("carriage returns", "R2.3", [line + b"\r" for line in sealed], broken("format"),
             head=head),
        case("an empty line", "R2.3", [*sealed[:1], b"", *sealed[1:]],
             broken("format", 1, sealed), head=head),
        case("a byte order mark", "R4.1", edited(0, lambda b: b"\xef\xbb\xbf" + b), broken("mac"),
             head=head),
        case("a line left out", "R3.1", [*sealed[:1], *sealed[2:]], broken("seq", 1, sealed),
             head=head),
        case("two lines swapped", "R3.1", [sealed[0], sealed[2], sealed[1], sealed[3]],
             broken("seq", 1, sealed), head=head),
        case("a line after the seal", "R5.3", after, broken("after_seal", 4, after)),
        case("a fragment after the seal", "R5.3", joined(sealed) + b"{}",
             broken("after_seal", 4, sealed), head=head),
        case("the seal cut off", "R6.5", sealed[:-1], broken("truncated", 3, sealed), head=head),
        case("the newline cut off", "R2.3", joined(sealed)[:-1], broken("truncated", 3, sealed),
             head=head),
        case("emptied", "R6.5", b"", broken("truncated"), head=head),
        case("a slot cut off", "R6.5", sealed, broken("truncated", 4, sealed), head=spoilt),
        case("other lines, signed", "R9.2", fork, broken("fork", 2, fork), head=open_head),
        case("a head changed", "R6.4", sealed, broken("head_mac"),
             head=head.replace(b'"n":4', b'"n":5').replace(b'"n":3', b'"n":4')),
        case("half a head", "R6.2", sealed, broken("head_mac"), head=head[:512]),
        case("a fragment and no head", "R9.3", joined(open_) + b"{}", broken("torn", 3, open_)),
        case("a line too long", "R2.4", [*open_[:2], long], broken("size", 2, open_))
        | {"receipt": joined(open_[:2]).decode(), "then": ["x", 2**20 + 1]},
        case("no key", "R9.8", sealed, UNTOLD, key=False),
        case("nothing", "R9.8", b"", UNTOLD),
        case("a seal is asked for", "R9.3", open_, broken("not_sealed", 3, open_), head=open_head,
             require_seal=True),
        case("signed is asked for", "R9.6", sealed, broken("no_checkpoint", 4, sealed), head=head,
             level="signed"),
        case("promised and not kept", "R9.6", promised, broken("no_checkpoint", 65, promised),
             head=promised_head),
        case("anchored is promised", "R9.6", anchored, broken("no_checkpoint", 1, anchored),
             head=anchored_head),
        case("another root", "R8.5", sealed, broken("checkpoint_root", 3, sealed), key=False,
             note=checkpoint(sealed, root=bytes(32))),
        case("the seal is not covered", "R9.3", sealed, broken("checkpoint_old", 3, sealed),
             head=head, note=checkpoint(sealed[:3])),
        case("lines beyond, without the key", "R9.3", open_, broken("unsigned", 2, open_),
             key=False, note=checkpoint(open_[:2])),
        case("fewer lines than signed", "R9.3", open_[:2], broken("truncated", 2, open_),
             note=checkpoint(open_)),
        case("of another session", "R8.4", sealed, broken("checkpoint_origin"), head=head,
             note=checkpoint(sealed, sid="k3v-2")),
        case("signed by somebody else", "R8.2", sealed, broken("checkpoint_sig"), head=head,
             note=note(body, stranger)),
        case("a size changed", "R8.2", sealed, broken("checkpoint_sig"), head=head,
             note=good.replace("\n4\n", "\n3\n").encode()),
        case("no signature", "R8.2", sealed, broken("checkpoint_sig"), head=head,
             note=f"{body}\n".encode()),
        case("a note with carriage returns", "R8.2", sealed, broken("checkpoint_format"),
             head=head, note=good.replace("\n", "\r\n").encode()),
        case("a note without its last newline", "R8.2", sealed, broken("checkpoint_format"),
             head=head, note=good[:-1].encode()),
        case("a leading zero", "R8.3", sealed, broken("checkpoint_format"), head=head,
             note=checkpoint(sealed, size="04")),
        case("a fourth line", "R8.3", sealed, broken("checkpoint_format"), head=head,
             note=note(body + "more\n")),
        *forged(),
    ]  # fmt: skip


def proofs() -> list[Case]:
    """Return proof files that show a line, and such that do not."""
    lines, _ = session(*({"i": i} for i in range(5)))
    whole = proof(lines, 2)
    hashes = whole.split(b"\n")
    swapped = b"\n".join([*hashes[:3], hashes[4], hashes[3], *hashes[5:]])
    foreign = rechained(lines, SID, lambda n, fields: fields.update(n=n + 1))

    def shown(name: str, clauses: str, content: bytes, expect: Case, line: bytes = b"") -> Case:
        given = _text("line", line) if line else {}
        return {"name": name, "clauses": clauses.split(), **_text("proof", content), **given,
                "expect": expect}  # fmt: skip

    good, bad = {"code": 0, "sid": SID, "line": 2}, {"code": 1, "reason": "proof"}
    return [
        shown("a line", "R8.8", whole, good),
        shown("a line that is given", "R8.8", proof(lines, 2, extra=False), good, lines[2]),
        shown("the last line", "R7.2", proof(lines, 6), {"code": 0, "sid": SID, "line": 6}),
        shown("the only line", "R7.2", proof(lines[:1], 0), {"code": 0, "sid": SID, "line": 0}),
        shown("no line", "R8.8", proof(lines, 2, extra=False), UNTOLD),
        shown("another line", "R8.8", whole, bad, lines[3]),
        shown("another index", "R7.2", whole.replace(b"index 2", b"index 3"), bad),
        shown("an index too large", "R7.2", whole.replace(b"index 2", b"index 7"), bad),
        shown("hashes swapped", "R7.2", swapped, bad),
        shown("a hash left out", "R7.2", b"\n".join([*hashes[:3], *hashes[4:]]), bad),
        shown("a hash too many", "R7.2", b"\n".join([*hashes[:4], *hashes[3:]]), bad),
        shown("another tree", "R8.8", proof(lines, 2, signed_note=checkpoint(lines[:4])), bad),
        shown("no signature", "R8.8", whole.rpartition(b"\n\n")[0] + b"\n\n",
              {"code": 1, "reason": "checkpoint_sig"}),
        shown("of the ledger", "R8.4", proof(lines, 2, signed_note=note(
              f"{NAME}/ledger\n7\n{b64encode(tree_hash(lines)).decode()}\n")),
              {"code": 1, "reason": "checkpoint_origin"}),
        shown("no header", "R8.8", whole[1:], {"code": 1, "reason": "proof_format"}),
        shown("a leading zero", "R8.8", whole.replace(b"index 2", b"index 02"),
              {"code": 1, "reason": "proof_format"}),
        shown("a line of another place", "R8.8", proof(foreign, 2),
              {"code": 1, "reason": "proof_line"}),
    ]  # fmt: skip


def documents() -> dict[str, dict[str, Any]]:
    """Return the content of each file of vectors, by its name."""
    keys = {"sid": SID, "key_hex": KEY.secret.hex(), "vkey": VKEY}
    made = {"accept": accepted(), "reject": rejected(), "proofs": proofs()}
    return {f"{name}.json": {**keys, "cases": cases} for name, cases in made.items()}


def spelled(document: dict[str, Any]) -> str:
    """Return a document as it stands in its file."""
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    for name, document in documents().items():
        (HOME / name).write_text(spelled(document), encoding="ascii")
