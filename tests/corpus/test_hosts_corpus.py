"""The outside cases about hosts: every firm one is answered exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.errors import PatternError
from broker.hosts import UrlError, check_host, host_matcher, read_url


def _plain_cases(shared: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases that hold nothing but `hosts=` texts and one fetched address."""
    for line in (shared / "corpus" / "cases.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        call = case["call"] or {}
        if (
            case["kind"] == "host"
            and call.get("tool") == "fetch"
            and set(call["args"]) == {"url"}
            and all(text.startswith("hosts=") or text == "tools=fetch" for text in case["scope"])
        ):
            yield case


def _answer(case: dict[str, Any]) -> str:
    try:
        lists = [
            tuple(check_host(item.strip()) for item in text[len("hosts=") :].split(","))
            for text in case["scope"]
            if text.startswith("hosts=")
        ]
    except PatternError:
        return "error"
    try:
        keys = read_url(case["call"]["args"]["url"]).keys
    except UrlError:
        return "refuse"
    return "allow" if all(host_matcher(items).match(keys) for items in lists) else "refuse"


def test_firm_answers(shared: Path) -> None:
    """A firm case has its one answer, a case of choice one of its two."""
    wrong = []
    count = 0
    for case in _plain_cases(shared):
        count += 1
        lawful = {case["expect"], case.get("alt", case["expect"])}
        if _answer(case) not in lawful:
            wrong.append((case["id"], case["scope"], case["call"]["args"], lawful))
    assert not wrong
    assert count > 250
