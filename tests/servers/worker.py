"""
One process that makes calls under its own ticket of a tree, and writes each down as a receipt does.

    python -m tests.servers.worker URL TREE TICKET FILE CALLS LIMIT OWN_LIMIT

Each allowed call is a line of FILE with the number of its debit; a process that begins with such a
file goes on from its last line. It ends when CALLS calls were decided: allowed, or refused because
a number is used up. One that could not be decided is made again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from broker.budget import Counts
from broker.budgets.opening import open_store
from broker.budgets.setting import BudgetSetting
from broker.budgets.shared import SharedBudget
from broker.calls import ALLOW, Decision, Refusal
from broker.errors import StoreError

_PATIENCE_S = 60.0


def main(url: str, tree: str, ticket: str, file: str, calls: int, limit: int, own: int) -> int:
    """Make the calls; return 0."""
    written = Path(file).read_text(encoding="ascii").split() if Path(file).exists() else []
    record = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    budget = opened(url, tree, ticket, int(written[-1]) if written else 0)

    def judge(counts: Counts) -> Decision:
        used = counts is None or counts[0] >= limit or counts[1] >= own
        return Decision(Refusal("calls", "", "used up")) if used else ALLOW

    def witness(decision: Decision) -> Decision:
        if decision.allowed:
            os.write(record, f"{budget.debit}\n".encode())
        return decision

    decided = len(written)
    while decided < calls:
        decision = budget.settle((tree, ticket), 1, judge, limits=(limit, own), witness=witness)
        refusal = decision.refusal
        if refusal is None or refusal.caveat == "calls":
            decided += 1
        elif "cannot be asked" not in refusal.reason:
            print(refusal.reason, file=sys.stderr)
            return 1
        else:
            time.sleep(0.05)
    budget.close()
    return 0


def opened(url: str, tree: str, ticket: str, at_least: int) -> SharedBudget:
    """Return the budget; the server may be down just now."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            store = open_store(BudgetSetting(url), {})
            return SharedBudget(store, ticket, trees=(tree,), at_least=at_least)
        except StoreError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    words = sys.argv[1:]
    raise SystemExit(main(*words[:4], *map(int, words[4:])))
