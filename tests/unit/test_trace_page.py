"""A run as one file that a person reads."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from broker.trace import page as room
from broker.trace.page import page
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from tests.unit.tracekit import SH, begun, whole

EVIL = "</pre><script>alert(1)</script><img src=http://evil.test/x>\x1b[2J\u202e\" onclick='x'"


class Page(HTMLParser):
    """What a browser would make of a page: its elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "li"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "li":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def made(folder: Path) -> tuple[str, Page]:
    """Return the page of a run, and what a browser makes of it."""
    text = "".join(page(RunReader.open(folder)))
    found = Page(text)
    assert found.open == []
    return text, found


ALLOWED_TAGS = set(
    "html head meta title style body h1 h2 dl dt dd details summary span p pre a code ul li".split()  # noqa: SIM905
)


def harmless(found: Page) -> None:
    """Nothing on the page runs, or leads elsewhere."""
    assert set(found.tags) <= ALLOWED_TAGS
    names = {name for name, _ in found.attributes}
    assert names <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "id",
        "href",
        "open",
    }
    assert all(value.startswith("#e") for name, value in found.attributes if name == "href")
    policy = next(v for n, v in found.attributes if n == "content" and v.startswith("default"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in room._STYLE
    assert "@import" not in room._STYLE


def test_a_page_of_a_run(tmp_path: Path) -> None:
    """It tells who ran what, every event with its payload, and that it is no proof."""
    text, found = made(whole(tmp_path).folder)
    harmless(found)
    words = " ".join(found.words)
    for told in ("run_", "sh -c true", "as sealed", "read_file", "print(1)", "broker verify"):
        assert told in words
    assert text.count("<details id=") == 9
    assert ("href", "#e4") in found.attributes


def test_nothing_of_a_run_becomes_markup(tmp_path: Path) -> None:
    """Whatever an agent chose, in every place that is shown, stays text and can be seen."""
    run = begun(tmp_path, replace(SH, argv=[EVIL], cwd=EVIL))
    run.event("note", "orca", attrs={EVIL: EVIL}, payload={EVIL: [EVIL]})
    run.event("note", "orca", payload=EVIL * 300, media_type="text/plain")
    run.event("tool.call", "model", attrs={"name": EVIL})
    Requests(run).write(EVIL, {"model": EVIL, "messages": [EVIL] * 500}, attrs={"model": EVIL})
    (run.folder / "events.jsonl").open("a").write(f'{{"type":"{"<b>"}"}}\n')
    text, found = made(run.folder)
    harmless(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<b>" not in text
    assert "alert(1)" in " ".join(found.words)


def test_long_payloads_are_cut_and_say_so(tmp_path: Path, monkeypatch: object) -> None:
    """One payload and all of them together have a limit."""
    run = begun(tmp_path)
    for _ in range(3):
        run.event("note", "orca", payload="x" * (room.PAYLOAD_CHARS + 7))
    run.seal(0)
    text, _ = made(run.folder)
    assert text.count("and 7 more characters") == 3
    monkeypatch.setattr(room, "PAGE_CHARS", room.PAYLOAD_CHARS)  # type: ignore[attr-defined]  # pytest's own type
    text, _ = made(run.folder)
    assert text.count("the page is full") == 2


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    """Problems, a broken seal and a missing payload stand on the page."""
    run = whole(tmp_path)
    with (run.folder / "events.jsonl").open("a") as file:
        file.write("x\n")
    for blob in (run.folder / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    text, found = made(run.folder)
    harmless(found)
    assert "not what was sealed" in text
    assert "truncated final line" in text
    assert "is not there" in text


@pytest.mark.deep
def test_ten_thousand_events(tmp_path: Path) -> None:
    """A long run is a page of a few megabytes, in time that grows with its events."""
    run = begun(tmp_path)
    for n in range(10_000):
        run.event("tool.call", "model", attrs={"name": "read_file"}, payload={"path": f"src/{n}"})
    run.seal(0)
    began = time.process_time()
    text = "".join(page(RunReader.open(run.folder)))
    assert len(re.findall("<details id=", text)) == 10_000
    assert len(text) < 6_000_000
    assert time.process_time() - began < 10
