"""Nothing that a person sees can move the cursor, turn the reading direction or hide itself."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.calls import ALLOW, ALLOW_UNSEEN, Decision, Refusal
from broker.cli import output
from broker.cli.output import decision_document, decision_line, paint, printable, table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@given(st.text(st.characters(categories=None)))
@example("a\x1b[2J\u202e\u200b\ud800\ufeff\U000e0041\u3164")
def test_printable_hides_nothing(text: str) -> None:
    """Escaped text holds no control, format, surrogate, private or separator character."""
    shown = printable(text)
    assert all(unicodedata.category(c)[0] not in "C" for c in shown)
    assert not {"\u2028", "\u2029", "\u00a0", "\u3164", "\u2800"} & set(shown)
    assert shown.encode("utf-8").decode("utf-8") == shown


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_printable_keeps_plain_text(text: str) -> None:
    """Ordinary text is shown as it is."""
    assert printable(text) == text
    assert printable("Größe, 测试, naïve") == "Größe, 测试, naïve"


@pytest.mark.parametrize(
    ("env", "stream", "coloured"),
    [
        ({}, Terminal(), True),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"TERM": "dumb"}, Terminal(), False),
        ({}, io.StringIO(), False),
    ],
)
def test_colour_only_where_wanted(
    env: dict[str, str], stream: io.StringIO, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colour appears on a terminal only, and NO_COLOR or a dumb terminal turns it off."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert (paint("x", "red", stream) == "\x1b[31mx\x1b[0m") is coloured
    assert coloured or paint("x", "red", stream) == "x"


def test_decision_lines() -> None:
    """An allow says what holds the call, a refusal names its caveat, and each is one line."""
    refusal = Decision(Refusal("paths", "a\nb", "reading `a\nb` is not within paths: src"))
    assert decision_line(ALLOW) == "allowed"
    assert decision_line(ALLOW_UNSEEN) == "allowed (enforcement: none)"
    assert decision_line(refusal) == r"refused (paths): reading `a\nb` is not within paths: src"
    assert decision_document(refusal)["value"] == "a\nb"
    assert decision_document(ALLOW).keys() == decision_document(refusal).keys()


def test_a_long_reason_is_cut_in_the_middle() -> None:
    """A reason that holds a huge path stays readable, with its beginning and its end."""
    line = decision_line(Decision(Refusal("paths", "x", "begin " + "x" * 60_000 + " end")))
    assert len(line) < 2_100
    assert line.startswith("refused (paths): begin x")
    assert line.endswith("x end")


def test_table_escapes_and_aligns() -> None:
    """Cells cannot break out of their line, and columns line up."""
    lines = table([("a\nb", "1"), ("c", "2\x1b")], ("name", "n"))
    assert lines == ["name  n", r"a\nb  1", r"c     2\x1b"]


def test_json_survives_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON answers are ASCII on one line, and lone surrogates come back from them."""
    output.json_out({"a": "\ud800\u202eé\n"})
    said = capsys.readouterr().out
    assert said.isascii()
    assert said.count("\n") == 1
    assert json.loads(said) == {"a": "\ud800\u202eé\n"}


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&-", "| true"])
def test_a_closed_stream_is_quiet(closed: str) -> None:
    """Without anybody to read it, a command ends without complaint."""
    code = "from broker.cli.main import main; main(['scope', 'show', 'calls=1'])"
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{code}" {closed}'],
        capture_output=True,
        env=os.environ,
        timeout=60,
        check=False,
    )
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
