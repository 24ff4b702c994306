"""
What a condition on an argument adds to a warm decision, in CPU time.

    python bench/conditions.py

The first row is a decision under a list of names, which no condition slows; the second one under a
rule that asks nothing. The others are under a rule with one condition, or with eight. What stands
in a text is remembered, as a session asks about the same call more than once; the last row is what
going through a new text of 430 characters takes.
"""

from __future__ import annotations

import time
import timeit

from broker.authorize import authorize
from broker.calls import Call, PathSubject, UrlSubject
from broker.intent import typed_text
from broker.language.links import links_in
from broker.scope import parse_scope
from broker.ticket import mint

LINE = typed_text("Pay Anna 20, and send the plan to <anna.lee@x.org> and to bob@y.org.")
PATH = PathSubject("p", "src/a", "read", ("src/a/",))
URL = UrlSubject("u", "https://a.test/", "https", "a.test", 443, ("a.test", "a.test:443"))
EIGHT = 'a="A", b<=50, c in {"x","y"}, d on 2024-05, e=true, f, g?="x", h in intent'
MAIL = "See you on Tuesday; the plan is with bob@y.org. " + "And so on, and on. " * 20
ROWS = {
    "a name": ("t", {"a": "A"}),
    "a rule": ("t(a)", {"a": "A"}),
    'a="A"': ('t(a="A")', {"a": "A"}),
    "a<=50": ("t(a<=50)", {"a": 5}),
    "a in {…}, 200 values": (
        "t(a in {" + ",".join(f'"v{n}"' for n in range(200)) + "})",
        {"a": "v199"},
    ),
    "a on 2024-05": ("t(a on 2024-05)", {"a": "2024-05-19 10:30"}),
    "a in intent": ("t(a in intent)", {"a": "anna.lee@x.org"}),
    "u host in {…}": ("t(u host in {*.test})", {"u": "https://a.test/"}),
    'p under "src/"': ('t(p under "src/")', {"p": "src/a"}),
    "a links in intent, 20 chars": ("t(a links in intent)", {"a": "See you on Tuesday! "}),
    "a links in intent, a mail": (
        "t(a links in intent)",
        {"a": MAIL},
    ),
    "a[]=…, ten elements": ('t(a[] in {"x","y"})', {"a": ["x"] * 10}),
    "eight conditions": (
        f"t({EIGHT})",
        {"a": "A", "b": 5, "c": "x", "d": "2024-05-19", "e": True, "f": "z", "h": "Anna"},
    ),
}


def microseconds(scope: str, arguments: dict[str, object]) -> float:
    """Return the CPU time of one decision that allows."""
    caveats = parse_scope(f"tools={scope}", at=0).caveats
    ticket = mint(caveats, key=bytes(32), sid="s", minted_at=0, intent=LINE.digest)
    call = Call("t", paths=(PATH,), urls=(URL,), arguments=arguments)
    assert authorize(ticket, call, 0, line=LINE).allowed

    def decide() -> object:
        return authorize(ticket, call, 0, line=LINE)

    runs = timeit.repeat(decide, number=10_000, repeat=15, timer=time.process_time)
    return min(runs) / 10_000 * 1e6


def main() -> None:
    """Print the table."""
    print(f"{'condition':28}{'decision':>10}{'beside a rule':>16}{'an argument':>14}   (us)")
    base = microseconds(*ROWS["a rule"])
    for name, (scope, arguments) in ROWS.items():
        took = microseconds(scope, arguments)
        added = took - base
        values = sum(len(v) if isinstance(v, list) else 1 for v in arguments.values())
        shown = f"{added:16.2f}{added / values:14.2f}" if scope not in ("t", "t(a)") else ""
        print(f"{name:28}{took:10.2f}{shown}")
    mails = iter([f"{MAIL}{n}" for n in range(10_000)])
    new = timeit.timeit(lambda: links_in(next(mails)), number=10_000, timer=time.process_time)
    print(f"{'finding links, a new mail':28}{new / 10_000 * 1e6:10.2f}")


if __name__ == "__main__":
    main()
