"""Tools are held to what they were given, where it is known what that is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.catalogs import Catalogs, load_catalogs
from broker.catalogs.entry import Argument, ToolEntry
from broker.intent import typed_text
from broker.replay.conditioned import tool_rule
from broker.replay.reading import ReadCall
from broker.replay.seen import SeenCall
from broker.replay.suggest import suggest
from broker.resolution.arguments import canonical_digest
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import mint

CATALOG = """
about = "A bank."
[tools.pay]
effect = "egress"
[tools.pay.arguments]
to = "recipient"
amount = "amount"
cc = { role = "recipient", many = true }
note = "text"
"""


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Catalogs:
    """Catalogs of which one describes a tool that pays."""
    config = tmp_path_factory.mktemp("config")
    (config / "catalogs").mkdir()
    (config / "catalogs/pay.toml").write_text(CATALOG, encoding="utf-8")
    return load_catalogs(None, config)


def _read(catalogs: Catalogs, root: Path, n: int, arguments: Mapping[str, object]) -> ReadCall:
    call = Resolver(str(root), catalogs).resolve("pay", dict(arguments))
    seen = SeenCall(n, 0, "pay", digest=canonical_digest(arguments), arguments=arguments)
    return ReadCall(seen, call, "text")


_CALLS = st.lists(
    st.fixed_dictionaries(
        {"to": st.sampled_from(["Anna", "Eve", 'q"uo\\te', "C7"]), "amount": st.integers(1, 99)},
        optional={
            "cc": st.lists(st.sampled_from(["Anna", "Eve"]), max_size=2),
            "note": st.text(max_size=9),
        },
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=20)
@given(calls=_CALLS, line=st.sampled_from(["", "Pay Anna and C7"]))
def test_what_ran_passes_and_nobody_else_is_paid(
    calls: list[dict[str, object]],
    line: str,
    catalogs: Catalogs,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Under the suggested scope every call passes, and a stranger, or one cent more, does not."""
    root = tmp_path_factory.getbasetemp()
    reads = [_read(catalogs, root, n, each) for n, each in enumerate(calls)]
    typed = typed_text(line) if line else None
    found = suggest([("r", reads)], catalogs, {"r": typed} if typed else {})
    scope = parse_scope(found.scope, at=0, groups=catalogs.groups(), lookup=catalogs.known)
    bound = typed.digest if typed else ""
    ticket = mint(scope.caveats, key=bytes(32), sid="s", minted_at=0, intent=bound)
    assert "pay(" in found.scope[0]
    assert all(authorize(ticket, read.call, 0, line=typed).refusal is None for read in reads)
    amounts = [int(str(each["amount"])) for each in calls]
    for more in (
        {"to": "Mallory"},
        {"amount": max(amounts) + 1},
        {"cc": ["Mallory"]},
        {"bcc": "x"},
    ):
        stranger = _read(catalogs, root, 9, {**calls[0], **more}).call
        assert authorize(ticket, stranger, 0, line=typed).refusal is not None, more


def test_what_was_typed_goes_before_what_was_seen(catalogs: Catalogs, tmp_path: Path) -> None:
    """A value of the line is held to the line; one that only the model said is named."""
    reads = [_read(catalogs, tmp_path, 3, {"to": "Anna", "amount": 20})]
    typed = suggest([("r", reads)], catalogs, {"r": typed_text("pay Anna")})
    assert typed.scope[0] == "tools=pay(amount<=20, to in intent)"
    assert "each `to` stands in what was typed" in typed.texts[0].items[0].why
    alone = suggest([("r", reads)], catalogs, {})
    assert alone.scope[0] == 'tools=pay(amount<=20, to in {"Anna"})'
    assert "`to` was named by the model alone" in alone.texts[0].items[0].why
    assert suggest([("r", reads)], catalogs).scope[0] == "tools=pay"


def test_arguments_that_nobody_decided_give_no_condition(
    catalogs: Catalogs, tmp_path: Path
) -> None:
    """A recording alone, or a call whose arguments are not known, leaves the tool as it is."""
    read = _read(catalogs, tmp_path, 3, {"to": "Anna", "amount": 20})
    told = ReadCall(SeenCall(3, 0, "pay", arguments=read.seen.arguments), read.call, "text")
    assert suggest([("r", [told])], catalogs, {}).scope[0] == "tools=pay"
    unknown = ReadCall(SeenCall(4, 0, "pay", digest="0" * 64), read.call, "receipt")
    assert suggest([("r", [read, unknown])], catalogs, {}).scope[0] == "tools=pay"


def test_only_what_a_catalog_labels_is_held() -> None:
    """No entry, one of a workspace, a shell, or a tool without such arguments: no condition."""
    entry = ToolEntry(
        "t", None, "write", {"to": Argument("recipient"), "path": Argument("path-write")}
    )
    arguments = [{"to": "a", "path": "x"}]
    assert tool_rule("t", None, arguments, lambda _: True) is None
    assert tool_rule("t", entry, [{"path": "x"}], lambda _: True) is None
    assert tool_rule("t", entry, arguments, lambda _: False) is None
    for other in (
        ToolEntry("t", None, "write", entry.arguments, vouched=False),
        ToolEntry("t", None, "opaque", entry.arguments),
    ):
        assert tool_rule("t", other, arguments, lambda _: True) is None
    found = tool_rule("t", entry, arguments, lambda text: "intent" not in text)
    assert found is not None
    assert found.text == 't(path, to in {"a"})'


def test_too_many_values_are_no_list() -> None:
    """What a person would not read is left out; an argument that may be missing says so."""
    entry = ToolEntry("t", None, "write", {"id": Argument("identifier"), "n": Argument("amount")})
    arguments = [{"id": f"i{n}"} for n in range(20)] + [{"id": "x", "n": 4}]
    found = tool_rule("t", entry, arguments, lambda text: "intent" not in text)
    assert found is not None
    assert found.text == "t(id, n?<=4)"
