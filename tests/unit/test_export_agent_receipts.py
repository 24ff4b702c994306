"""A receipt as Agent Receipts v0.5: the specification's fields, chain and signatures."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from broker.export import agent_receipts
from broker.export.didkey import did_key
from broker.receipt.entry import format_at
from tests import exportkit
from tests.exportkit import SID, SIGNER, home_at, lines_of, session, source_of
from tests.receiptkit import AT

PUBLIC = SIGNER.public.public
NOW = AT + 7_200_000_000_000
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture
def signed(tmp_path: Path) -> list[dict[str, Any]]:
    """The signed credentials of a session with an entry of each kind."""
    home = home_at(tmp_path)
    session(home)
    made = agent_receipts.receipts(source_of(home), SID, PUBLIC, NOW)
    return [json.loads(agent_receipts.signed(each, SIGNER)) for each in made]


def subjects(signed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the credentials are about."""
    return [each["credentialSubject"] for each in signed]


def test_each_has_the_fields_that_are_required(signed: list[dict[str, Any]]) -> None:
    """Every required field is there and of its form, and no optional one is null."""
    for each in signed:
        assert set(each) == {
            "@context", "credentialSubject", "id", "issuanceDate", "issuer", "proof", "type",
            "version",
        }  # fmt: skip
        assert each["@context"][1] == "https://agentreceipts.ai/context/v2"
        assert each["version"] == "0.5.0"
        assert re.fullmatch(f"urn:receipt:{UUID}", each["id"])
        assert each["issuanceDate"] == format_at(NOW)
        subject = each["credentialSubject"]
        assert re.fullmatch(f"act_{UUID}", subject["action"]["id"])
        assert subject["action"]["risk_level"] in {"low", "medium", "high", "critical"}
        assert subject["outcome"]["status"] in {"success", "failure", "pending"}
        assert subject["action"]["target"]["system"]
        subject["chain"].pop("previous_receipt_hash")
        assert "null" not in json.dumps(each)
    assert len({each["id"] for each in signed}) == len(signed)


def test_the_chain_is_the_specification_s(signed: list[dict[str, Any]]) -> None:
    """Sequence, link and terminal mark, hashed over RFC 8785 by an independent writer."""
    last = None
    for n, each in enumerate(signed, 1):
        chain = each["credentialSubject"]["chain"]
        assert (chain["sequence"], chain["chain_id"]) == (n, SID)
        assert chain["previous_receipt_hash"] == last
        assert chain.get("terminal") is (True if n == len(signed) else None)
        each.pop("proof")
        last = f"sha256:{sha256(rfc8785.dumps(each)).hexdigest()}"
    assert signed[-1]["credentialSubject"]["chain"]["status"] == "complete"


def test_the_signatures_hold(signed: list[dict[str, Any]]) -> None:
    """Each proof is Ed25519 over RFC 8785 of the rest, under the key that the issuer's name is."""
    for each in signed:
        proof = each.pop("proof")
        assert proof["type"] == "Ed25519Signature2020"
        assert proof["proofPurpose"] == "assertionMethod"
        assert proof["verificationMethod"].startswith(each["issuer"]["id"] + "#z6Mk")
        assert each["issuer"]["id"] == did_key(PUBLIC)
        assert re.fullmatch("u[A-Za-z0-9_-]{86}", proof["proofValue"])
        signature = urlsafe_b64decode(proof["proofValue"][1:] + "==")
        assert SIGNER.public.accepts(rfc8785.dumps(each), signature)


def test_what_is_said_of_each_action(signed: list[dict[str, Any]]) -> None:
    """A decision is pending or failed; how it ended comes as a second receipt of the same call."""
    told = [
        (
            each["action"]["type"],
            each["action"]["risk_level"],
            each["outcome"]["status"],
            each["correlation_id"],
        )
        for each in subjects(signed)
    ]
    assert told == [
        ("filesystem.file.read", "low", "pending", "c1"),
        ("filesystem.file.read", "low", "success", "c1"),
        ("system.command.execute", "high", "failure", "c2"),
        ("filesystem.file.modify", "medium", "pending", "c3"),
        ("filesystem.file.modify", "medium", "failure", "c3"),
    ]
    first, _, refused, _, last = subjects(signed)
    assert first["action"]["parameters_hash"] == f"sha256:{'cd' * 32}"
    assert first["action"]["target"] == {"resource": "src/café.py", "system": "read_file"}
    assert first["authorization"]["scopes"] == ["tools=read_file", "calls=3"]
    assert first["authorization"]["grant_ref"] == "t1"
    assert first["intent"] == {
        "prompt_preview": "tidy up; =1+1",
        "prompt_preview_truncated": False,
    }
    assert refused["outcome"]["error"].startswith("refused (tools): ")
    assert last["outcome"]["error"] == "refused by the agent's own rules: the person said no"


def test_each_names_its_line(signed: list[dict[str, Any]], tmp_path: Path) -> None:
    """The runtime container names the line and its hash, and the subagent where there is one."""
    lines = lines_of(home_at(tmp_path))
    told = [each["issuer"]["runtime"] for each in signed]
    assert [each["receipt_line"] for each in told] == [3, 4, 5, 7, 8]
    assert all(lines[each["receipt_line"]].entry.hash == each["receipt_sha256"] for each in told)
    assert [each.get("agent_id") for each in told] == [None, None, "helper", None, None]
    assert told[1]["output_sha256"] == "ef" * 32


@pytest.mark.parametrize(("seal", "ending"), [("interrupted", "interrupted"), (None, None)])
def test_an_end_that_is_none(tmp_path: Path, seal: str | None, ending: str | None) -> None:
    """An interrupted session says so; an open one makes no claim to be complete."""
    home = home_at(tmp_path)
    session(home, "s", seal=seal)
    *_, last = agent_receipts.receipts(source_of(home, "s"), "s", PUBLIC, NOW)
    assert last["credentialSubject"]["chain"].get("status") == ending
    assert ("terminal" in last["credentialSubject"]["chain"]) is (ending is not None)


def test_what_is_kept_is_of_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that never end are forgotten, the oldest first, and their results are of `unknown`."""
    monkeypatch.setattr(agent_receipts, "MAX_CALLS_KEPT", 0)
    home = home_at(tmp_path)
    session(home)
    told = list(agent_receipts.receipts(source_of(home), SID, PUBLIC, NOW))
    action = told[1]["credentialSubject"]["action"]
    assert (action["type"], action["target"]) == ("unknown", {"system": "c1"})


@pytest.mark.parametrize(
    ("touched", "kind"),
    [
        ([], "unknown"),
        (None, "unknown"),
        ([{"url": "https://a.example"}], "unknown"),
        ([{"path": "a"}], "unknown"),
        (["a"], "unknown"),
        ([{"path": "a", "access": "read"}], "filesystem.file.read"),
        ([{"path": "a", "access": "read"}, {"more": 1}], "unknown"),
        ([{"path": "a", "access": "read"}, {"command": "ls"}], "system.command.execute"),
    ],
)
def test_a_type_is_only_given_where_it_is_known(touched: object, kind: str) -> None:
    """The type is the gravest that the receipt vouches for, and never a guess."""
    data: dict[str, object] = {"tool": "x", "subjects": touched}
    assert agent_receipts.kind_of(data)[0] == kind


def test_a_yes_to_one_call_is_not_the_prompt_of_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows is told with the line of the root that is in force."""
    later: tuple[tuple[str, dict[str, object]], ...] = (
        ("intent", {"line": "yes 123456", "digest": "ab" * 32}),
        ("ticket", {"ticket": "t9", "caveats": ["calls=1"], "beside": "t1"}),
        exportkit.ENTRIES[2],
    )
    monkeypatch.setattr(exportkit, "ENTRIES", (*exportkit.ENTRIES, *later))
    session(home_at(tmp_path))
    lines = lines_of(home_at(tmp_path))
    told = [
        json.dumps(each) for each in agent_receipts.receipts(lines, SID, SIGNER.public.public, AT)
    ]
    assert any("tidy up" in each for each in told)
    assert not any("yes 123456" in each for each in told)
