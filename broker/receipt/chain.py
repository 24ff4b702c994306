"""
One session's chain of lines: what comes next, and whether a given line is it.

Decided here: a line's bytes, its link to the line before, its tag, and the rules of kinds.
Not decided here: files, heads, durability.

``compose`` and ``push`` write; ``accept`` verifies. Both move the same state, so a writer that
starts again walks the same path as a verifier.

Rules a maintainer keeps:

- ``accept`` authenticates raw bytes before it reads any of them, and changes nothing when it
  refuses.
- Only ``compose`` makes a tag over a line, and only with the line label.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Protocol

from broker.errors import Break, LimitError
from broker.limits import MAX_LINE_BYTES
from broker.receipt.commitment import COMMITTED, committed
from broker.receipt.entry import (
    HEX64,
    SEAL_REASONS,
    canonical,
    check_sid,
    describes_fragment,
    parse_at,
    strict_data,
)
from broker.receipt.faults import fault_of
from broker.receipt.form import OPEN, RECEIPT, RECOVER, SEAL, Form
from broker.receipt.keys import Key, Mac
from broker.receipt.merkle import Frontier

TAIL_BYTES: Final = 74  # ,"sig":"<64 hex>"}
_TAIL_OPENS: Final = b',"sig":"'
_TAIL_SHUTS: Final = b'"}'
_HEADS: Final = b'{"at":"'
_DATA: Final = b'","data":'
_COMMITS: Final = f'"{COMMITTED}":'


def genesis(sid: str, form: Form = RECEIPT) -> str:
    """Return what line 0 links to: 64 hex digits bound to the form and the session's name."""
    return sha256(form.genesis_label.encode() + b"\0" + sid.encode()).hexdigest()


class LineTags(Protocol):
    """
    What signs the lines of a chain, one after the other.

    ``kid`` names the key in every line. ``step`` moves on to the key of the next line; a key
    that signs every line has nothing to do there.
    """

    @property
    def kid(self) -> str:
        """The name of the key, as every line gives it."""
        ...

    def tag(self, body: bytes) -> str:
        """Return the tag of the next line's body."""
        ...

    def step(self) -> None:
        """Move past a line."""
        ...


@dataclass(frozen=True, slots=True)
class OneKey:
    """Tags of a key that signs every line of a session alike."""

    kid: str
    mac: Mac

    @classmethod
    def of(cls, key: Key, sid: str, form: Form = RECEIPT) -> OneKey:
        """Return the tags of one session under an installation's key."""
        return cls(key.kid, key.mac(form.line_label, sid))

    def tag(self, body: bytes) -> str:
        """Return the tag of a line's body."""
        return self.mac.tag(body)

    def step(self) -> None:
        """Nothing moves."""


@dataclass(frozen=True, slots=True)
class State:
    """
    A chain between two lines, without its key: what a verifier needs to go on from there.

    Whoever keeps one must authenticate it: it is believed like the lines before it.
    ``edge`` is the tree's (None without a tree); the other fields are the chain's.
    """

    n: int
    size: int
    last: str
    at: str
    kind: str
    went_back: int
    closing: str
    root: str
    edge: tuple[tuple[int, str], ...] | None

    def spelled(self) -> bytes:
        """Return the state as bytes, for a file."""
        return canonical(asdict(self)).encode()

    @classmethod
    def read(cls, content: bytes) -> State:
        """
        Return the state that ``spelled`` wrote.

        Raises:
            ValueError: it did not.
        """
        try:
            fields = json.loads(content)
            if fields["edge"] is not None:
                fields["edge"] = tuple((level, node) for level, node in fields["edge"])
            state = cls(**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("not the state of a chain") from error
        if state.spelled() != content:
            raise ValueError("not the state of a chain")
        return state


class Chain:
    """
    The state after ``n`` lines; ``kind``, ``at`` and ``text`` are those of the last one.

    Args:
        sid: the session's name.
        key: the secret that signs, or the tags of the lines where they come from elsewhere.
        form: which form of chain it is.
        tree: keep the Merkle tree too. A verifier leaves it out when no seal is in sight; a
            seal's root is not proven then, and the verifier must see that something follows.
    """

    __slots__ = (
        "_middle",
        "_step",
        "_tag",
        "at",
        "closing",
        "form",
        "kid",
        "kind",
        "last",
        "mac",
        "n",
        "root",
        "sid",
        "size",
        "text",
        "tree",
        "went_back",
    )

    def __init__(
        self, sid: str, key: Key | LineTags, *, tree: bool = True, form: Form = RECEIPT
    ) -> None:
        self.sid = check_sid(sid)
        self.form = form
        self.turn(key)
        self.tree = Frontier() if tree else None
        self.n = 0
        self.size = 0
        self.last = genesis(sid, form)
        self.kind = self.at = self.text = ""
        self.closing = ""  # the seal's reason, once sealed
        self.root = ""
        self.went_back = 0  # lines whose instant is before the one of the line above

    def turn(self, key: Key | LineTags) -> None:
        """From the next line on, let another key sign."""
        tags = OneKey.of(key, self.sid, self.form) if isinstance(key, Key) else key
        self.kid = tags.kid
        self.mac = tags.mac if isinstance(tags, OneKey) else None  # of every line, if it is one
        self._middle = f',"kid":"{tags.kid}","kind":"'.encode()
        self._tag = tags.tag if self.mac is None else self.mac.tag
        self._step = None if self.mac is not None else tags.step

    def state(self) -> State:
        """Return where the chain stands."""
        edge = self.tree.copy().edge if self.tree is not None else None
        return State(
            n=self.n,
            size=self.size,
            last=self.last,
            at=self.at,
            kind=self.kind,
            went_back=self.went_back,
            closing=self.closing,
            root=self.root,
            edge=None if edge is None else tuple((i, edge[i].hex()) for i in sorted(edge)),
        )

    def restore(self, state: State) -> None:
        """Stand where another chain of the same session stood."""
        self.n, self.size, self.last = state.n, state.size, state.last
        self.at, self.kind, self.text = state.at, state.kind, ""
        self.went_back, self.closing, self.root = state.went_back, state.closing, state.root
        self.tree = None
        if state.edge is not None:
            self.tree = Frontier(state.n)
            self.tree.edge.update((level, bytes.fromhex(node)) for level, node in state.edge)

    @classmethod
    def resumed(cls, state: State, sid: str, key: Key | LineTags, *, form: Form = RECEIPT) -> Chain:
        """Return a chain that goes on from a state; whoever calls vouches for the state."""
        chain = cls(sid, key, form=form)
        chain.restore(state)
        return chain

    # ── writing ──

    def compose(self, kind: str, text: str, at: str) -> bytes:
        """
        Return the next line, without its newline. The state does not move.

        Raises:
            LimitError: the line would be longer than ``MAX_LINE_BYTES``.
        """
        front = (
            f'{{"at":"{at}","data":{text},"kid":"{self.kid}","kind":"{kind}",'
            f'"n":{self.n},"prev":"{self.last}","sid":"{self.sid}"'
        ).encode()
        line = b'%b,"sig":"%b"}' % (front, self._tag(front + b"}").encode())
        if len(line) > MAX_LINE_BYTES:
            raise LimitError(
                f"the line has {len(line)} bytes and may have {MAX_LINE_BYTES}: record a digest",
                limit="MAX_LINE_BYTES",
            )
        return line

    def push(self, kind: str, at: str, line: bytes) -> None:
        """Move past a line of our own that has just been written."""
        if self.tree is not None:
            self.tree.append(line)
        if at != self.at:
            if at < self.at:
                self.went_back += 1
            self.at = at
        self.kind = kind
        self.last = sha256(line).hexdigest()
        self.n += 1
        self.size += len(line) + 1
        if self._step is not None:
            self._step()

    def seal_data(self, reason: str) -> dict[str, object]:
        """Return the data of a seal over the lines so far."""
        assert self.tree is not None  # noqa: S101  a writer always keeps the tree
        return {"n": self.n, "reason": reason, "root": self.tree.root().hex()}

    # ── verifying ──

    def accept(self, line: bytes) -> None:
        """
        Verify the next line and move past it.

        Raises:
            Break: it is not the next line; nothing has moved.
        """
        if self.closing:
            raise self.broken("after_seal", "something follows the seal")
        if len(line) > MAX_LINE_BYTES:
            raise self.broken("size", f"the line is longer than {MAX_LINE_BYTES} bytes")
        tag = line[-66:-2]
        if line[-74:-66] != _TAIL_OPENS or line[-2:] != _TAIL_SHUTS:
            raise self.broken("format", "the line does not end in a tag")
        body = line[:-TAIL_BYTES]
        if not compare_digest(tag, self._tag(body + b"}").encode()):
            raise self._not_signed(tag)
        after = f'","n":{self.n},"prev":"{self.last}","sid":"{self.sid}"'.encode()
        stop = len(body) - len(after)
        start = body.rfind(self._middle, 0, stop)
        kind = self.form.kinds.get(body[start + len(self._middle) : stop])
        if (
            not body.endswith(after)
            or start < 0
            or kind is None
            or not body.startswith(_HEADS)
            or body[31:40] != _DATA
        ):
            raise self._misshapen(line)
        try:
            at = str(body[7:31], "ascii")
            if at[:20] != self.at[:20] or not at[20:23].isdigit() or at[23] != "Z":
                parse_at(at)
            text = str(body[40:start], "utf-8")
            strict_data(text)
        except (ValueError, Break):
            raise self._misshapen(line) from None
        if kind in (OPEN, SEAL, RECOVER) or self.n == 0:
            self._check_kind(kind, text)
        if _COMMITS in text:
            self._check_commitments(text)
        self.text = text
        self.push(kind, at, line)

    @property
    def plain(self) -> bool:
        """
        Whether to the last line no rule applies beyond the form of its fields.

        INVARIANT: it then applies to no line that has the same kinds of values under the same
        keys. Whoever adds a rule to ``accept`` adds it here, or ``scan`` will pass it over.
        """
        return self.kind in self.form.appended and _COMMITS not in self.text

    def pass_by(self, lines: list[bytes], last: str, at: str, went_back: int) -> None:
        """
        Move past lines that are known to be the next ones: ``scan`` has seen to that.

        Args:
            lines: all of one kind of rules, so none of them opens, recovers or seals.
            last: the hash of the last of them.
            at: its instant.
            went_back: before how many of them the clock went back.
        """
        if not lines:
            return
        line = lines[-1]
        start = line.rfind(self._middle)
        begin = start + len(self._middle)
        self.kind = str(line[begin : line.find(b'"', begin)], "utf-8") if start > 0 else ""
        self.text = str(line[40 : max(40, start)], "utf-8")
        self.at = at
        self.last = last
        self.n += len(lines)
        self.size += sum(map(len, lines)) + len(lines)
        self.went_back += went_back
        if self.tree is not None:
            self.tree.extend(lines)

    def broken(self, reason: str, message: str) -> Break:
        """Return a ``Break`` at the next line."""
        return Break(reason, message, line=self.n, offset=self.size)

    def _not_signed(self, tag: bytes) -> Break:
        if HEX64.fullmatch(str(tag, "latin-1")) is None:
            return self.broken("format", "the tag is not 64 lower-case hex digits")
        return self.broken(
            "mac", f"the line was not signed with key `{self.kid}` for session `{self.sid}`"
        )

    def _misshapen(self, line: bytes) -> Break:
        fields = (("sid", self.sid), ("kid", self.kid), ("n", self.n), ("prev", self.last))
        return self.broken(*fault_of(line, fields))

    def _check_commitments(self, text: str) -> None:
        try:
            committed(json.loads(text))
        except Break as flaw:
            raise self.broken(flaw.reason, flaw.message) from None

    def _check_kind(self, kind: str, text: str) -> None:
        """Check the kinds that have a place and a form of their own."""
        if (kind == OPEN) != (self.n == 0):
            raise self.broken("kind", "`open` is line 0, and only line 0")
        data: dict[str, Any] = json.loads(text)
        if kind == OPEN and data.get("format") != self.form.name:
            raise self.broken("schema", f"the open line does not say `{self.form.name}`")
        if kind == RECOVER and not describes_fragment(data):
            raise self.broken("schema", "the recover line does not describe a fragment")
        if kind == SEAL:
            root = self.tree.root().hex() if self.tree else data.get("root")
            wanted = {"n": self.n, "reason": data.get("reason"), "root": root}
            # Texts are compared, not values: to Python, `true` is 1.
            if data.get("reason") not in SEAL_REASONS or text != canonical(wanted):
                raise self.broken("seal", "the seal does not fit the lines before it")
            self.closing = data["reason"]
            self.root = data["root"]
