"""Whatever a secret is and wherever its name puts it, it is not in what is written down."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from broker.redaction.bodies import hide_body
from broker.redaction.hiding import Hider, redacted
from broker.redaction.texts import secrets_in
from broker.redaction.words import hide_words

NAMES = st.sampled_from(
    ["password", "API_KEY", "openaiApiKey", "x-api-key", "client_secret", "GITHUB_TOKEN", "cookie",
     "authorization", "privateKey", "DATABASE_URL", "_authToken", "smtp_pass"]
)  # fmt: skip
# Marks that end a word are quoted by whoever writes such a value; those tests are below.
PLAIN = st.text(
    st.sampled_from("abcXYZ019._~+/@#%^*!?$:<>-"), min_size=4, max_size=40
).filter(lambda text: text[0] not in "-$<" and any(c.isdigit() for c in text))  # fmt: skip
QUOTED = st.text(
    st.characters(exclude_categories=["C"]), min_size=4, max_size=40
).map(lambda text: "q9" + text + "9q")  # fmt: skip

LINES: dict[str, Callable[[str, str], str]] = {
    "shell": lambda name, value: f"export {name}={value} && run",
    "option": lambda name, value: f"run --{name} {value} --next",
    "option=": lambda name, value: f"run --{name}={value} --next",
    "header": lambda name, value: f"curl -H '{name}: {value}' https://host/",
    "query": lambda name, value: f"https://host/?a=b&{name}={value}&c=d",
    "yaml": lambda name, value: f"a: b\n{name}: {value}\nc: d",
    "single": lambda name, value: f"x = {{'{name}': '{value}'}}",
    "tag": lambda name, value: f"<{name}>{value}</{name}>",
    "prose": lambda name, value: f"my {name} is set: {name} = {value}, see",
}


@given(name=NAMES, value=PLAIN, form=st.sampled_from(sorted(LINES)))
def test_a_value_behind_its_name_is_gone(name: str, value: str, form: str) -> None:
    """In a command, a header, a query, YAML, code, a tag and prose the value is not left."""
    if form == "tag" and ("<" in value or ">" in value):
        value = "tag9value"
    if form == "query":
        value = value.replace("#", "9")
    said = redacted(LINES[form](name, value))
    assert value not in said, said
    assert name in said


@given(name=NAMES, value=QUOTED, depth=st.integers(0, 3), ascii_only=st.booleans())
def test_a_quoted_value_is_gone_at_any_depth(
    name: str, value: str, depth: int, ascii_only: bool
) -> None:
    """JSON, JSON within JSON and so on: the value is gone, as text and as a document."""
    text = json.dumps({name: value, "n": 1}, ensure_ascii=ascii_only)
    for _ in range(depth):
        text = json.dumps({"arguments": text}, ensure_ascii=ascii_only)
    inner = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
    for kept in (hide_body(text.encode()).content.decode(), redacted(text)):
        assert value not in kept
        assert inner not in kept
        found: object = json.loads(kept)  # JSON it still is
        for _ in range(depth):
            assert isinstance(found, dict)
            found = json.loads(found["arguments"])
        assert isinstance(found, dict)
        assert found["n"] == 1


@given(name=NAMES, value=QUOTED)
def test_a_word_of_a_command_goes_whole(name: str, value: str) -> None:
    """A word behind an option, or behind its own name, is gone with its blanks and quotes."""
    for words in (["x", f"--{name}", value], ["x", f"--{name}={value}"]):
        assert value not in " ".join(hide_words(words, Hider()))


@given(text=st.text(st.sampled_from("aK=:\"'\\ \n-{}[]<>,.@/pwd token key secret bearer 9Z")))
def test_hiding_twice_hides_no_more(text: str) -> None:
    """What was hidden is left by a second pass, with and without a salt."""
    for salt in (b"", b"s" * 32):
        once = Hider(salt).text(text)
        assert Hider(salt).text(once) == once


@given(text=st.text(st.sampled_from("password=:\"'\\ \n-{}<>ghp_0a9Z@/"), max_size=80))
def test_places_are_in_order_and_do_not_overlap(text: str) -> None:
    """Spans lie within the text, one after the other, and none is empty."""
    at = 0
    for span in secrets_in(text):
        assert at <= span.start < span.end <= len(text)
        at = span.end
