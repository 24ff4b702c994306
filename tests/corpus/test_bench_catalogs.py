"""The tools of three benchmarks, described: complete, and held in nested arguments too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.authorize import authorize
from broker.catalogs import Argument
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import mint
from tests.corpus.agentdojo import bench_catalog

NAMES = ("agentdojo", "agentdyn", "taubench")
BOOKING = (
    'tools=book_reservation(user_id="u1", origin="SFO", destination="JFK", flight_type="one_way", '
    'cabin="economy", flights.flight_number in {"F1", "F2"}, flights.date on 2024-05-19, '
    'passengers.first_name="Ann", passengers.last_name="Lee", passengers.dob="1990-01-01", '
    'payment_methods.payment_id="p1", payment_methods.amount<=100, total_baggages<=1, '
    'nonfree_baggages<=0, insurance="no")'
)
BOOKED = {
    "user_id": "u1",
    "origin": "SFO",
    "destination": "JFK",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "F1", "date": "2024-05-19"}],
    "passengers": [{"first_name": "Ann", "last_name": "Lee", "dob": "1990-01-01"}],
    "payment_methods": [{"payment_id": "p1", "amount": 99.5}],
    "total_baggages": 1,
    "nonfree_baggages": 0,
    "insurance": "no",
}


def ways(schema: dict) -> Iterator[str]:
    """Each argument that a schema speaks of, with those inside, by their way."""
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from ways(inner)
    for name, inner in schema.get("properties", {}).items():
        yield from (name, *(f"{name}.{way}" for way in ways(inner)))


def labelled(arguments: Mapping[str, Argument]) -> Iterator[str]:
    """Each argument that a catalog speaks of, with those inside, by their way."""
    for name, argument in arguments.items():
        yield from (name, *(f"{name}.{way}" for way in labelled(argument.fields or {})))


@pytest.mark.parametrize("name", NAMES)
def test_each_argument_is_labelled(name: str, shared: Path) -> None:
    """Every tool of the benchmark is described, with each of its arguments, nested ones too."""
    known = bench_catalog(name)
    suites = json.loads((shared / "agentdojo" / f"{name}.json").read_text())["suites"]
    for suite in suites.values():
        for tool, schema in suite["tools"].items():
            entry = known.known(tool)
            assert entry is not None, tool
            assert set(ways(schema["parameters"])) <= set(labelled(entry.arguments)), tool


@pytest.mark.parametrize(
    "change",
    [
        {"flights": [{"flight_number": "F3", "date": "2024-05-19"}]},
        {"flights": [{"flight_number": "F1", "date": "2024-05-20"}]},
        {"flights": [*BOOKED["flights"], {"flight_number": "F9", "date": "2024-05-19"}]},
        {"flights": {"flight_number": "F1", "date": "2024-05-19"}},
        {"passengers": [{**BOOKED["passengers"][0], "email": "eve@x.org"}]},
        {"passengers": [{"first_name": "Ann", "last_name": "Lee"}]},
        {"payment_methods": [{"payment_id": "p1", "amount": 101}]},
        {"payment_methods": [{"payment_id": "p1", "amount": True}]},
        {"payment_methods": [{"payment_id": "p1", "amount": 9}, {"payment_id": "p2", "amount": 9}]},
        {"insurance": "yes"},
        {"total_baggages": "1"},
        {"gift_to": "eve"},
    ],
)
def test_nested_arguments_are_held(change: dict, tmp_path: Path) -> None:
    """A booking passes as typed, and with one thing changed at any depth it does not."""
    catalogs = bench_catalog("taubench")
    scope = parse_scope(BOOKING, at=0, groups=catalogs.groups(), lookup=catalogs.known)
    ticket = mint(scope.caveats, key=bytes(32), sid="s", minted_at=0)
    resolver = Resolver(tmp_path, catalogs)
    asked = [resolver.resolve("book_reservation", call) for call in (BOOKED, {**BOOKED, **change})]
    assert [authorize(ticket, call, 0).allowed for call in asked] == [True, False]


MAIL = (
    'tools=send_email(recipients="ann@x.org", attachments?.file_path="/docs/plan.pdf")',
    'tools=send_email(recipients="ann@x.org", '
    'attachments.event_details.participants in {"ann@x.org", "bob@x.org"}, '
    "attachments.event_details.start_time on 2024-05-20)",
)
FILE = {"type": "file", "file_path": "/docs/plan.pdf"}
EVENT = {"title": "Plan", "start_time": "2024-05-20 10:00", "participants": ["bob@x.org"]}


@pytest.mark.parametrize(
    ("scope", "attached", "allowed"),
    [
        (MAIL[0], [FILE], True),
        (MAIL[0], [], True),
        (MAIL[0], [FILE, {"type": "file", "file_path": "/system/.ssh/id_rsa"}], False),
        (MAIL[0], [{**FILE, "file_id": "13"}], False),
        (MAIL[0], ["/docs/plan.pdf"], False),
        (MAIL[0], [{"type": "event", "event_details": EVENT}], False),
        (MAIL[1], [{"type": "event", "event_details": EVENT}], True),
        (MAIL[1], [{"event_details": {**EVENT, "participants": ["eve@x.org"]}}], False),
        (MAIL[1], [{"event_details": {**EVENT, "cc": ["eve@x.org"]}}], False),
        (MAIL[1], [{"event_details": {**EVENT, "start_time": "2024-05-21 10:00"}}], False),
        (MAIL[1], [], False),
    ],
)
def test_what_is_attached_is_held(
    scope: str, attached: list, allowed: bool, tmp_path: Path
) -> None:
    """Three levels down: the path of an attached file, and who an attached event is sent to."""
    catalogs = bench_catalog("agentdyn")
    read = parse_scope(scope, at=0, groups=catalogs.groups(), lookup=catalogs.known)
    ticket = mint(read.caveats, key=bytes(32), sid="s", minted_at=0)
    mail = {"recipients": ["ann@x.org"], "subject": "Plan", "body": "", "attachments": attached}
    call = Resolver(tmp_path, catalogs).resolve("send_email", mail)
    assert authorize(ticket, call, 0).allowed == allowed
