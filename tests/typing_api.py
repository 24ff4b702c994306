"""The public API as a user's type checker sees it; mypy reads this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

import broker
from broker import Break, Call, Decision, Refusal

call: Call = Call("read_file")
decision = Decision(Refusal("paths", "src/**", "outside"))
assert_type(decision.refusal, Refusal | None)
assert_type(decision.allowed, bool)
assert_type(call.cost(), int)
assert_type(Break("mac", "line 3 was not signed").line, int)
assert_type(broker.Decision(None), Decision)
