"""The tools of three benchmarks, described: complete, and held in nested arguments too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.authorize import authorize
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


@pytest.mark.parametrize("name", NAMES)
def test_each_argument_is_labelled(name: str, shared: Path) -> None:
    """Every tool of the benchmark is described, with each of its arguments."""
    known = bench_catalog(name)
    suites = json.loads((shared / "agentdojo" / f"{name}.json").read_text())["suites"]
    for suite in suites.values():
        for tool, schema in suite["tools"].items():
            entry = known.known(tool)
            assert entry is not None, tool
            assert set(schema["parameters"].get("properties", {})) <= set(entry.arguments), tool


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
