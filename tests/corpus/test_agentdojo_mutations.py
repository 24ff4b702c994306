"""Every changed call of AgentDojo gets its expected answer under the scope of its task."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.corpus.agentdojo import AgentDojo


@pytest.fixture(scope="module")
def dojo(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> AgentDojo:
    """The tasks beside the project."""
    return AgentDojo(shared / "agentdojo", tmp_path_factory.mktemp("dojo"))


def test_every_mutation_gets_its_answer(dojo: AgentDojo) -> None:
    """A task's own calls pass, and what an attacker or a slip makes of them does not."""
    wrong = []
    for row in dojo.mutations:
        suite, task, call = row["suite"], row["user_task"], row["call"]
        more, spent = (), 0
        if "spent" in row:
            (tool, spent), *_ = row["spent"].items()
            more = (f"calls={dojo.allowance(suite, task, tool)}",)
        decision = dojo.decide(dojo.ticket(suite, task, *more), call, spent)
        if decision.allowed != (row["expect"] == "allow"):
            reason = decision.refusal and decision.refusal.reason
            wrong.append((row["mutation"], suite, task, call, row["expect"], reason))
    kinds = Counter(kind for kind, *_ in wrong)
    assert not wrong, f"{len(wrong)} of {len(dojo.mutations)}: {kinds}\n{wrong[:5]}"


def test_the_mutations_are_of_many_kinds(dojo: AgentDojo) -> None:
    """The data is what the test above takes it for: both answers, and dozens of kinds."""
    answers = Counter(row["expect"] for row in dojo.mutations)
    kinds = {row["mutation"] for row in dojo.mutations}
    assert min(answers.values()) > 400
    assert len(kinds) > 60


def test_a_task_s_ticket_survives_its_wire_form_and_text(dojo: AgentDojo) -> None:
    """Each of these scopes is written, signed, read again and rendered to the same rules."""
    from broker.scope import parse_scope, render
    from broker.ticket import verify_chain
    from tests.corpus.agentdojo import KEY

    for name in dojo.limits:
        ticket = dojo.ticket(*name.split("/"))
        assert verify_chain(ticket.wire(), KEY).caveats == ticket.caveats
        texts = list(render(ticket.caveats))
        assert parse_scope(texts, at=0).caveats == ticket.caveats
        again = parse_scope(texts, at=0, groups=dojo.catalogs.groups(), lookup=dojo.catalogs.known)
        assert again.caveats == ticket.caveats
