#!/usr/bin/env python3
# fmt: off
"""
Verifies a receipt: this one file, Python 3.9 or newer, nothing else.

Written from docs/receipt.md, not from the program that writes receipts, and short enough to be read
in one sitting. R3.4 and the like are clauses of that page; what a reason means stands in its R9.
    python3 verify_receipt.py receipt.jsonl --vkey signing.vkey --checkpoint checkpoint
    python3 verify_receipt.py receipt.jsonl --key-file receipt.key --head head
    python3 verify_receipt.py --proof line.proof --vkey signing.vkey
Exit code: 0 verified; 1 changed, cut, or less than was promised; 2 that cannot be told.
"""
from __future__ import annotations  # noqa: I001

import argparse, base64, calendar, hashlib, hmac, itertools, json, os, re, stat, sys  # noqa: E401
from typing import Any

LEVELS = ("chain", "mac", "signed", "anchored")
CLOSINGS = ("complete", "interrupted", "disk-full", "abandoned")
KINDS = ("open", "intent", "ticket", "delegate", "decision", "permission", "result", "note",
         "dropped", "recover", "redact", "revoke", "seal")
FIELDS = {"data": dict, "n": int, **dict.fromkeys(("at", "kid", "kind", "prev", "sid", "sig"), str)}
MAX_LINE, MAX_NOTE, MAX_PROOF, YOUNG = 2**20, 2**18, 2**21, 64  # bytes, bytes, bytes, lines
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
HEX64, NUMBER, HASH = "[0-9a-f]{64}", "(0|[1-9][0-9]{0,18})", "[A-Za-z0-9+/]{43}="
INSTANT = r"(?!0000)\d{4}-(0[1-9]|1[0-2])-(?!00)[0-3]\dT([01]\d|2[0-3])(:[0-5]\d){2}\.\d{3}Z"
RECOVER = rf'{{"bytes": [1-9][0-9]*, "kept": "([^"\\]|\\.)*", "sha256": "{HEX64}"}}'
BASE64 = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
NOTE = rf"(([^\0-\x1f]+)\n{NUMBER}\n({HASH})\n)\n((?:— [^\s+]+ [A-Za-z0-9+/]{{7,}}=*\n){{0,100}})"
PROOF = rf"c2sp\.org/tlog-proof@v1\n(?:extra (\S*)\n)?index {NUMBER}\n((?:{HASH}\n){{0,63}})\n(.+)"

class Flaw(Exception):
    """A reason in one word, what it is about, and where; the exit code follows from the reason."""

def need(right: object, reason: str, said: str = "", at: Any = None) -> None:
    if not right:
        raise Flaw(reason, said, at)

# ── hashes, signatures, the tree (R1, R7, R8.6) ──
def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()

def mac(key: bytes, label: str, body: bytes) -> bytes:
    return hmac.new(key, label.encode() + b"\0" + body, hashlib.sha256).digest()

def point(encoded: bytes) -> Any:  # x and y on edwards25519; None unless this is its one encoding
    sign, y = divmod(int.from_bytes(encoded, "little"), 2**255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    right = len(encoded) == 32 and y < P and x * x % P == square and (x or not sign)
    return (x if x % 2 == sign else P - x, y) if right else None

def add(p: Any, q: Any) -> Any:
    t = D * p[0] * q[0] * p[1] * q[1]
    x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + t, -1, P)
    return x % P, (p[1] * q[1] + p[0] * q[0]) * pow(1 - t, -1, P) % P

def times(number: int, p: Any) -> Any:
    rest = times(number >> 1, add(p, p)) if number else (0, 1)
    return add(rest, p) if number & 1 else rest

def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    a, r, base = point(public), point(signature[:32]), point(b"\x58" + b"\x66" * 31)
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little")
    sound = a and r and len(signature) == 64 and s < ORDER and times(8, a) != (0, 1)
    return bool(sound) and add(times(s, base), times(k % ORDER, (P - a[0], a[1]))) == r

def grow(edge: list[bytes], size: int, leaf: bytes) -> None:  # edge: roots of the full subtrees
    node = sha256(b"\0" + leaf)
    while size & 1:
        node, size = sha256(b"\1" + edge.pop() + node), size >> 1
    edge.append(node)

def tree_hash(edge: list[bytes]) -> bytes:
    node = edge[-1] if edge else sha256(b"")
    for left in edge[-2::-1]:
        node = sha256(b"\1" + left + node)
    return node

def led_to(node: bytes, index: int, size: int, path: list[bytes]) -> bytes:  # the root
    if size < 2 or not path:
        need((index, size, path) == (0, 1, []), "proof", "its path is too long or too short")
        return node
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        return sha256(b"\1" + led_to(node, index, split, path[:-1]) + path[-1])
    return sha256(b"\1" + path[-1] + led_to(node, index - split, size - split, path[:-1]))

def content(path: str, what: str, limit: int = -2, forbidden: int = 0o022) -> bytes:
    flags = sum(getattr(os, "O_" + name, 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY"))
    with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
        status, folder = os.fstat(file.fileno()), os.stat(os.path.dirname(path) or ".")
        need(stat.S_ISREG(status.st_mode) and status.st_nlink == 1, "unsafe", f"no plain {what}")
        checks = [(status, forbidden), (folder, 0o022)][:1 + (what == "key")]
        for each, mask in checks if os.name == "posix" else []:
            mine = each.st_uid in (os.geteuid(), 0) and not each.st_mode & mask
            need(mine, "unsafe", f"others can reach the {what}, or its folder")
        return file.read(limit + 1)

def unbase64(text: str, reason: str) -> bytes:
    found = base64.b64decode(text) if re.fullmatch(BASE64, text) else b""
    need(base64.b64encode(found).decode() == text, reason, "not base64 in its one spelling")
    return found

def vkey(text: str) -> tuple[str, bytes, bytes]:  # name, key id, public key
    text = content(text, "vkey", 1_024).decode() if os.path.exists(text) else text
    found = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})\n?", text) or [text] * 4
    raw = unbase64(found[3], "vkey")
    key_id, a = sha256(found[1].encode() + b"\n" + raw)[:4], point(raw[1:])
    right = key_id.hex() == found[2] and raw[:1] == b"\1" and a and times(8, a) != (0, 1)
    need(right, "vkey", "this is no verification key")
    return found[1], key_id, raw[1:]

def checkpoint(note: bytes, key: Any, sid: str | None = None) -> tuple[str, int, bytes]:
    text = note.decode("utf-8", "replace") if len(note) <= MAX_NOTE else ""
    found = re.fullmatch(NOTE, text) if "\ufffd" not in text else None
    need(found, "checkpoint_format", "no signed note of three lines")
    body, origin, size, root, lines = found.groups() if found else [""] * 5
    pairs = [line.split(" ")[1:] for line in lines.split("\n")[:-1]]
    signed = [(name, unbase64(each, "checkpoint_format")) for name, each in pairs]
    mine = [raw[4:] for name, raw in signed if (name, raw[:4]) == key[:2]]
    need(mine and all(signed_by(key[2], body.encode(), each) for each in mine), "checkpoint_sig")
    ours, of = origin.startswith(f"{key[0]}/receipt/"), origin[len(key[0]) + 9:]
    need(ours and sid in (None, of), "checkpoint_origin", f"it is of {origin!a}")
    return of, int(size), unbase64(root, "checkpoint_format")

# ── lines and the head (R3 to R6) ──
def unique(pairs: list[tuple[str, Any]]) -> Any:
    need(len(dict(pairs)) == len(pairs), "dupkey")
    need(all(key.isascii() for key, _ in pairs), "schema", "a key is not ASCII")
    return dict(pairs)

def integer(text: str) -> int:
    need(re.fullmatch("-?[0-9]{1,16}", text) and abs(int(text)) < 2**53, "number")
    return int(text)

def strict(raw: bytes) -> Any:  # canonical JSON in the data model of R4
    text = raw.decode("utf-8", "replace")
    need(text.encode() == raw, "encoding")
    marks = re.findall("[][{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    steps = itertools.accumulate(1 if mark in "[{" else -1 for mark in marks)
    need(max(steps, default=0) <= 33, "depth")
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_int=integer,
                           parse_float=integer, parse_constant=integer)
    except ValueError as error:
        raise Flaw("json", str(error), None) from None
    need(type(value) is dict, "schema", "not an object")
    spelled = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    need(spelled == text, "canon")
    return value

def read_head(raw: bytes, key: bytes, sid: str) -> tuple[dict[str, Any], int]:
    head_key, found = mac(key, "receipt/1 head", sid.encode()), {}
    for i, slot in enumerate((raw[:512], raw[512:])):
        text = slot.rstrip(b" \n")
        tail = b',"tag":"%s"}' % mac(head_key, "receipt/1 head", text[:-74] + b"}").hex().encode()
        if hmac.compare_digest(tail, text[-74:]) and slot == text.ljust(511) + b"\n":
            found[i] = strict(text)
    need(len(raw) == 1_024 and found and all(v["sid"] == sid for v in found.values()), "head_mac")
    i = max(found, key=lambda i: (found[i]["n"], -i))
    torn = len(found) == 1 and raw[512 - 512 * i:][:512] != bytes(512)
    return found[i], found[i]["n"] + (torn and not (i == 0 and "agg" in found[i]))

class Lines:
    def __init__(self, sid: str, key: bytes | None) -> None:
        self.sid, self.key = sid, key and mac(key, "receipt/1 line", sid.encode())
        self.kid = sha256(b"receipt/1 kid\0" + key).hex()[:16] if key else ""
        self.last = sha256(b"receipt/1 genesis\0" + sid.encode()).hex()
        self.n, self.offset, self.edge, self.closing, self.promise = 0, 0, list[bytes](), "", "mac"

    def take(self, line: bytes) -> None:  # the checks of R9.2 in their order
        need(not self.closing, "after_seal")
        need(len(line) <= MAX_LINE, "size", f"the line has {len(line)} bytes")
        need(re.fullmatch(f',"sig":"{HEX64}"}}', line[-74:].decode("latin-1")), "format")
        tag = mac(self.key or b"", "receipt/1 line", line[:-74] + b"}").hex().encode()
        need(not self.key or hmac.compare_digest(tag, line[-66:-2]), "mac")
        value = strict(line)
        need({name: type(each) for name, each in value.items()} == FIELDS, "schema")
        at, kind, data = value["at"], value["kind"], value["data"]
        need(re.fullmatch(INSTANT, at, re.ASCII), "schema", "at is no instant")
        need(int(at[8:10]) <= calendar.monthrange(int(at[:4]), int(at[5:7]))[1], "schema")
        self.kid = self.kid or value["kid"]
        need(re.fullmatch("[0-9a-f]{16}", self.kid), "schema", "kid is not the name of a key")
        wanted = {"sid": self.sid, "kid": self.kid, "n": self.n, "prev": self.last}
        for name, each in wanted.items():
            need(value[name] == each, "seq" if name == "n" else name)
        need(kind in KINDS and (kind == "open") == (self.n == 0), "kind")
        if kind == "open":
            need(data.get("format") == "receipt/1", "schema", "it is of another format")
            self.promise = data.get("level", "mac")
        need(kind != "recover" or re.fullmatch(RECOVER, json.dumps(data)), "schema")
        if kind == "seal":
            said = {"n": self.n, "reason": data.get("reason"), "root": tree_hash(self.edge).hex()}
            need(json.dumps(data) == json.dumps(said) and data["reason"] in CLOSINGS, "seal")
            self.closing = data["reason"]
        digests = data.get("_sd", ["-" * 43])
        right = re.fullmatch(r'\["[\w-]{43}"(, "[\w-]{43}")*\]', json.dumps(digests))
        need(right and digests == sorted(set(digests)), "schema", "_sd is no list of digests")
        grow(self.edge, self.n, line)
        self.last = sha256(line).hex()
        self.n, self.offset = self.n + 1, self.offset + len(line) + 1

def verify(args: argparse.Namespace) -> dict[str, Any]:
    key = content(args.key_file, "key", 32, 0o177) if args.key_file else None
    need(key is None or (len(key) == 32 and key != key[:1] * 32), "key", "32 bytes, not all equal")
    signer: Any = vkey(args.vkey) if args.vkey else None
    first = b"" if args.sid else content(args.receipt, "receipt", MAX_LINE)
    stated = re.match(rb'.*"sid":"([a-z0-9][a-z0-9-]{0,63})","sig":"', first)
    sid = args.sid or (stated[1].decode() if stated else "-")
    head, acknowledged, size, root = None, 0, 0, b""
    if args.head and key:
        need(os.path.lexists(args.head), "no_head")
        head, acknowledged = read_head(content(args.head, "head", 1_024), key, sid)
    if args.checkpoint:
        need(signer, "vkey", "a checkpoint takes a --vkey")
        _, size, root = checkpoint(content(args.checkpoint, "checkpoint", MAX_NOTE), signer, sid)
    need(os.path.lexists(args.receipt) or not acknowledged + size, "missing")
    forward = head["n"] if head and "agg" in head else -1  # lines whose keys are gone: R11.5
    *lines, fragment = content(args.receipt, "receipt").split(b"\n")
    chain = Lines(sid, key if forward < 0 else None)
    try:
        for line in lines:
            at = chain.n, chain.offset
            chain.take(line)
            if head and chain.n == head["n"]:
                need((chain.last, chain.offset) == (head["last"], head["bytes"]), "fork", at=at)
            if chain.n == size:
                need(tree_hash(chain.edge) == root, "checkpoint_root", at=at)
            need(chain.promise in LEVELS[1:], "level", "the open line promises no known level", at)
        need(len(fragment) <= MAX_LINE, "size")
        need(chain.n >= acknowledged, "truncated", f"{acknowledged} lines were acknowledged")
        need(not (chain.closing and fragment), "after_seal")
        need(head or not fragment, "torn", "no head says whether the line that is cut off counts")
        need(chain.n or size, "nothing", "there is no line")
        need(chain.n >= size, "truncated", f"the checkpoint covers {size} lines")
        need(forward < 0 or chain.n <= forward, "ratchet", "lines follow the acknowledged ones")
        beyond, after = chain.n > size > 0, (size, sum(len(each) + 1 for each in lines[:size]))
        need(not beyond or key, "unsigned", "lines follow the checkpoint", after)
        need(not beyond or not chain.closing, "checkpoint_old", "the seal is not covered", after)
        need(chain.closing or not args.require_seal, "not_sealed")
        level = "signed" if size else "mac" if chain.key else "chain"
        vouched = size or (key and (forward < 0 or chain.promise != "mac"))
        wanted = max(args.level or "mac", chain.promise if vouched else "chain", key=LEVELS.index)
        young = key and not chain.closing and chain.n <= YOUNG and args.level != "signed"
        enough = LEVELS.index(level) >= LEVELS.index(wanted) or (young and wanted == "signed")
        need(wanted != "anchored" or not size, "anchor", "promised, and not read here")
        need(enough or level != "chain" or signer, "key", "there is no key to check the tags with")
        need(enough, "no_checkpoint", f"level {wanted} is promised or asked for")
    except Flaw as error:
        raise Flaw(*error.args[:2], error.args[2] or (chain.n, chain.offset)) from None
    state = {"": "TORN" if fragment else "OPEN", "complete": "SEALED"}
    return {"sid": sid, "state": state.get(chain.closing, "INTERRUPTED"), "level": level,
            "lines": chain.n, "last": chain.last,
            "completeness": "KNOWN" if head or (chain.closing and size) else "UNKNOWN",
            "signed_lines": size, "tags": "checked" if chain.key else "unchecked"}

def verify_proof(args: argparse.Namespace) -> dict[str, Any]:  # a line stands in a receipt: R8.8
    signer, raw = vkey(args.vkey or ""), content(args.proof, "proof", MAX_PROOF)
    found = re.fullmatch(PROOF, raw.decode("latin-1"), re.DOTALL)
    need(found and len(raw) <= MAX_PROOF, "proof_format")
    extra, index, hashes, note = found.groups() if found else [""] * 4
    carried = None if extra is None else unbase64(extra, "proof_format")
    line: Any = content(args.receipt, "line").removesuffix(b"\n") if args.receipt else carried
    need(line is not None, "nothing", "the proof does not carry its line: give it too")
    need(carried in (None, line), "proof", "it is about another line")
    path, n = [unbase64(each, "proof_format") for each in hashes.split()], int(index)
    sid, size, root = checkpoint(note.encode("latin-1"), signer)
    need(n < size and led_to(sha256(b"\0" + line), n, size, path) == root, "proof")
    value = strict(line)
    need(json.dumps([value.get("n"), value.get("sid")]) == json.dumps([n, sid]), "proof_line")
    return {"sid": sid, "line": n, "signed_lines": size, "text": line.decode()}

def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("verify_receipt.py", None, __doc__)
    parser.formatter_class = argparse.RawTextHelpFormatter
    parser.add_argument("receipt", nargs="?", default="", help="the receipt, or one line of it")
    for name in ("sid", "key-file", "head", "vkey", "checkpoint", "proof"):
        parser.add_argument("--" + name)
    parser.add_argument("--level", choices=LEVELS[:3])
    parser.add_argument("--require-seal", action="store_true")
    parser.add_argument("--json", action="store_true")
    args, code = parser.parse_args(argv), 0
    try:
        found = {"verdict": "verified", **(verify_proof(args) if args.proof else verify(args))}
    except Flaw as error:
        code = 2 if error.args[0] in ("unsafe", "key", "vkey", "nothing", "anchor") else 1
        (reason, said, at), verdict = error.args, ["", "broken", "unverifiable"][code]
        found = {"verdict": verdict, "reason": reason, "message": said, "at": at or (0, 0)}
    except (OSError, ValueError) as error:
        code, found = 2, {"verdict": "unverifiable", "reason": "unsafe", "message": str(error)}
    print(json.dumps(found) if args.json else "  ".join(f"{k}: {v!a}" for k, v in found.items()))
    return code

if __name__ == "__main__":
    sys.exit(main())
