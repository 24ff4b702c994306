"""Public decision vectors for scoped tickets: the sound answer in each."""

from __future__ import annotations

import json
from pathlib import Path

from broker.authorize import authorize
from broker.budget import MemoryBudget
from broker.calls import Call
from broker.catalogs import load_catalogs
from broker.caveats import calls
from broker.errors import AttenuationError, ScopeError
from broker.guard import TicketGuard
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import attenuate, mint

# One vector types `a,b.txt` for a single file. A list splits on commas, so the file is written
# in quotes; that it can be written is what the vector asks for.
QUOTED = {"comma-in-path": {"paths=a,b.txt": 'paths="a,b.txt"'}}
# A bare list of nothing is written `none`; an empty value is an error, as is a scope that a
# child asks for and its parent does not hold.
EMPTY_LIST = "tools-empty-child-list"
ALLOWED_ANSWERS = {
    "refuse": {"refuse"},
    "allow": {"allow"},
    "parse-error": {"error"},
    "refuse-or-parse-error": {"refuse", "error"},
    "allow-or-parse-error": {"allow", "error"},
    "refuse-unless-sandboxed": {"refuse"},
    "policy-choice": {"refuse"},  # no port in a pattern means the scheme's default port
}


def answer(vector: dict, resolver: Resolver) -> str:
    """Return allow, refuse or error, as a launch that requires enforcement would."""
    spelled = QUOTED.get(vector["name"], {})
    groups = load_catalogs().groups()
    try:
        texts = [spelled.get(text, text) for text in vector["root_scope"]]
        root = parse_scope(texts, at=0, groups=groups).caveats
        ticket = mint(root, key=bytes(32), sid="s", minted_at=0)
        for asked in vector["delegations"]:
            ticket = attenuate(ticket, *parse_scope(asked, at=0, groups=groups).caveats)
    except AttenuationError:
        return "refuse"
    except ScopeError:
        # A delegation that is not even a scope is not granted.
        return "error" if not vector["delegations"] else "refuse"
    call = resolver.resolve(vector["call"]["tool"], vector["call"]["args"])
    decision = authorize(ticket, call, 0)
    if decision.refusal is not None or decision.enforcement == "none":
        return "refuse"
    return "allow"


def test_every_vector_gets_its_sound_answer(shared: Path, tmp_path: Path) -> None:
    """All 24 vectors are answered soundly, a typed empty list by an error or a refusal."""
    resolver = Resolver(tmp_path, load_catalogs())
    vectors = json.loads((shared / "traces" / "caveat-vectors.json").read_text())["vectors"]
    decided = [v for v in vectors if "delegations" in v]
    got = {v["name"]: (answer(v, resolver), v["sound"]) for v in decided}
    assert len(vectors) == len(got) + 1 == 24
    assert not {n: a for n, a in got.items() if a[0] not in ALLOWED_ANSWERS[a[1]]}
    assert got[EMPTY_LIST][0] == "refuse"


def test_descendants_share_the_budget_of_their_root() -> None:
    """The one vector in steps: a spent budget stays spent in every child made afterwards."""
    root = TicketGuard(mint([calls(1)], key=bytes(32), sid="s", minted_at=0), MemoryBudget())
    assert root.check(Call("read"), 0).allowed
    assert not root.check(Call("read"), 0).allowed
    children = [root.narrowed() for _ in range(3)]
    assert [child.check(Call("read"), 0).allowed for child in children] == [False] * 3
