"""Which tests one value can pass while it fails others."""

from __future__ import annotations

import pytest

from broker.conditions import InIntent, LinksTyped, Under, between, host_in, links, on, values
from broker.language.conjunction import satisfiable

IN = InIntent()
TYPED = LinksTyped()
NONE, A, AB = links(), links("a.test"), links("a.test", "b.test")


@pytest.mark.parametrize(
    ("held", "failed", "due"),
    [
        ([], [], True),
        ([values("A")], [values("A", "B")], False),
        ([values("A", "B")], [values("A")], True),
        ([values(1)], [values(True)], True),
        ([values(1, 2)], [between(0, 1)], True),
        ([values(1)], [between(0, 1)], False),
        ([values("A")], [between(0, 1)], True),
        ([values("0001-01-05")], [on((1, 9))], False),
        ([values("A"), on((1, 9))], [], False),
        ([values(5), host_in("a.test")], [], False),
        ([between(0, 5)], [between(0, 2), between(2, 5)], False),
        ([between(0, 5)], [between(0, 2), between(3, 5)], True),
        ([between(0, 5)], [between(1, 5)], True),
        ([between(5, 5)], [values(5)], False),
        ([between(5, 6)], [values(5, 6)], True),
        ([between(0, None)], [between(0, 9), between(9, None)], False),
        ([between(0, None)], [between(0, 9)], True),
        ([between(0, 5), between(6, 7)], [], False),
        ([between(0, 5), on((1, 2))], [], False),
        ([on((1, 9))], [on((1, 4)), on((5, 9))], False),
        ([on((1, 9))], [on((1, 4)), on((6, 9))], True),
        ([on((1, 9)), on((9, 12))], [on((9, 9))], False),
        ([IN], [IN], False),
        ([IN], [], True),
        ([IN, values(True)], [], False),
        ([IN, values("...")], [], False),
        ([values("A")], [IN], True),
        ([host_in("a.test")], [host_in("*.test", "a.test")], False),
        ([host_in("*.a.test")], [host_in("b.a.test")], True),
        ([host_in("a.test")], [values("https://a.test/")], True),
        ([Under("a/b")], [Under("a")], False),
        ([Under("a")], [Under("a/b")], True),
        ([Under("a"), Under("b")], [], False),
        ([Under("ab")], [Under("a")], True),
        ([Under("a")], [Under(".")], False),
        ([Under("a/.git")], [Under("a")], True),
        ([Under("a/.git/x")], [Under("a/.git")], False),
        ([values("a")], [Under("a")], True),
        ([A], [AB], False),
        ([AB], [A], True),
        ([AB], [A, links("b.test")], True),
        ([NONE], [TYPED], False),
        ([A], [TYPED], True),
        ([TYPED], [A], True),
        ([TYPED], [TYPED], False),
        ([A, TYPED], [NONE], True),
        ([A, TYPED], [AB], False),
        ([IN], [TYPED], True),  # a number is no text
        ([IN, A], [TYPED], False),
        ([IN], [NONE], True),
        ([values("a.test", "x")], [A], False),
        ([values("a.test", "b.test")], [A], True),
        ([values("x")], [TYPED], False),
        ([values(5)], [TYPED], True),
        ([values(5), A], [], False),
        ([values("b.test"), A], [], False),
        ([values("a.test"), IN], [TYPED], False),
        ([between(0, 5)], [AB], True),
        ([between(0, 5), NONE], [], False),
        ([on((1, 9))], [NONE], False),
        ([on((1, 9)), NONE], [], True),
        ([host_in("a.test")], [A], True),
    ],
)
def test_what_can_be(held: list, failed: list, due: bool) -> None:
    """*No* only where every value that passes the first passes one of the others."""
    assert satisfiable(held, failed) == due
