"""The public API as a user's type checker sees it; mypy reads this file, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import broker
from broker import (
    Break,
    Call,
    Caveat,
    Decision,
    Receipts,
    Refusal,
    Ticket,
    attenuate,
    authorize,
    describe,
    enforce,
    load_or_create_key,
    mint,
    parse_scope,
    render,
    sign,
    verify,
    verify_chain,
)
from broker.receipt.keys import Key
from broker.receipt.verify import Verdict

KEY = bytes(32)

scope = parse_scope(["tools=read_file", "paths=src/**"], at=0)
assert_type(scope.caveats, tuple[Caveat, ...])
assert_type(render(scope.caveats), tuple[str, ...])

ticket = mint(scope.caveats, key=KEY, sid="s", minted_at=0)
assert_type(ticket, Ticket)
assert_type(attenuate(ticket, Caveat("calls", 3)), Ticket)
assert_type(verify_chain(ticket.wire(), KEY), Ticket)
assert_type(describe(ticket), tuple[str, ...])

decision = authorize(ticket, Call("read_file"), 0)
assert_type(decision, Decision)
assert_type(decision.refusal, Refusal | None)
assert_type(enforce(decision), Decision)
assert_type(broker.authorize(ticket, Call("read_file"), 0, 3).allowed, bool)

key = load_or_create_key(Path("key"))
assert_type(key, Key)
assert_type(sign(KEY, "label", b"body"), str)
assert_type(verify(Path("receipt"), key=key, head=None), Verdict)
assert_type(Break("mac", "line 3 was not signed").line, int)
store: type[Receipts] = Receipts
