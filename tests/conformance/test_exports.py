"""
Exports in the hands of others: each format is read by a program of somebody else's.

These programs are installed for the tests alone. Where one of them is more lenient than we are
(a trail with a lost end, say), that is noted and not relied on.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from aat import core as aat_core
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf.json_format import Parse
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from obsigna.receipt.chain import verify_chain
from obsigna.receipt.types import AgentReceipt
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from broker.export import formats
from tests.exportkit import LINES, SID, SIGNER, home_at, session, source_of
from tests.receiptkit import AT

PUBLIC = SIGNER.public.public


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a session that has an entry of each kind."""
    place = tmp_path_factory.mktemp("exports")
    session(home_at(place), more=150)
    return place


def exported(place: Path, name: str) -> bytes:
    """Return an export of that session."""
    source = source_of(home_at(place))
    return b"".join(formats.pieces(name, source, signer=SIGNER, at=AT))


def test_agent_receipts_in_their_own_sdk(place: Path) -> None:
    """The protocol's SDK accepts the chain: each signature, each link, and the terminal mark."""
    records = [json.loads(line) for line in exported(place, "agent-receipts").splitlines()]
    pem = Ed25519PublicKey.from_public_bytes(PUBLIC).public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    chain = [AgentReceipt(**record) for record in records]
    found = verify_chain(chain, pem.decode(), require_terminal=True, expected_length=155)
    assert (found.valid, found.status, found.warnings) == (True, "complete", [])
    assert not verify_chain(chain[:2] + chain[3:], pem.decode()).valid
    records[3]["credentialSubject"]["outcome"]["status"] = "success"
    changed = [AgentReceipt(**record) for record in records]
    assert not verify_chain(changed, pem.decode()).valid


def test_a_trail_in_its_reference_implementation(place: Path) -> None:
    """The draft's reference implementation accepts the chain, and sees a record left out."""
    records = [json.loads(line) for line in exported(place, "aat").splitlines()]
    assert aat_core.verify_chain(records) == (True, [])
    assert len(records) == LINES + 150
    for record in records:
        assert set(record) == set(aat_core.MANDATORY)
        assert record["action_type"] in aat_core.ACTION_TYPES
        assert record["outcome"] in aat_core.OUTCOMES
        assert record["record_phase"] in aat_core.PHASES
        assert record["trust_level"] in aat_core.TRUST_LEVELS
    assert not aat_core.verify_chain(records[:5] + records[6:])[0]


def test_log_records_as_protobuf(place: Path) -> None:
    """OpenTelemetry's own messages take every line, and no field is unknown to them."""
    batches = [Parse(line, LogsData()) for line in exported(place, "otel").splitlines()]
    records = [
        record
        for batch in batches
        for scope in batch.resource_logs[0].scope_logs
        for record in scope.log_records
    ]
    assert len(records) == LINES + 150
    assert records[0].time_unix_nano == AT
    assert {record.severity_number for record in records} == {9, 13}
    lines = {a.key: a.value for a in records[7].attributes}
    assert lines["capability_broker.receipt.line"].int_value == 7


def test_a_statement_in_the_hands_of_others(place: Path) -> None:
    """One library opens the envelope, another takes the statement for a valid one."""
    envelope = Envelope.from_dict(json.loads(exported(place, "in-toto")))
    key = SSlibKey(SIGNER.name, "ed25519", "ed25519", {"public": PUBLIC.hex()})
    assert list(envelope.verify([key], 1)) == [SIGNER.name]
    statement = Parse(envelope.payload, statement_pb2.Statement())
    Statement.copy_from_pb(statement).validate()
    assert statement.subject[0].name == f"{SID}/receipt.jsonl"
    envelope.payload += b" "
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table_in_a_spreadsheet_of_any_country(place: Path, delimiter: str) -> None:
    """However a program splits the rows, no cell that it makes begins a formula."""
    text = exported(place, "csv").decode()
    cells = [
        cell
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for cell in row
    ]
    assert [cell for cell in cells if cell.lstrip('" ')[:1] in {*"=+-@"}] == []
    assert any("HYPERLINK" in cell for cell in cells)
