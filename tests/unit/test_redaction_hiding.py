"""What stands in the place of a secret."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from broker.redaction.hiding import MARK, Hider, redacted


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("AWS_SECRET_ACCESS_KEY=s5 aws s3 ls", "AWS_SECRET_ACCESS_KEY=[hidden] aws s3 ls"),
        ("export GITHUB_TOKEN='a b' && x", "export GITHUB_TOKEN='[hidden]' && x"),
        ("mysql --password hunter2 -u me", "mysql --password [hidden] -u me"),
        ('{"apiKey": "z", "x": 1}', '{"apiKey": "[hidden]", "x": 1}'),
        ("https://me:pw@host/x", "https://[hidden]@host/x"),
        ("curl h/?access_token=abc&b=1", "curl h/?access_token=[hidden]&b=1"),
        ("-H 'Authorization: Bearer abcd'", "-H 'Authorization: [hidden]'"),
        ("x: bearer abcdef", "x: bearer [hidden]"),
        ("DATABASE_URL=postgres://a/b", "DATABASE_URL=[hidden]"),
        ("use ghp_0123456789abcdef0123 now", "use [hidden] now"),
    ],
)
def test_the_name_stays_and_the_value_goes(text: str, kept: str) -> None:
    """A reader sees that a secret was there, and not what it was."""
    assert redacted(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5 token_count=3",
        "python tokens.py src/token.py",
        "grep -r password src",
        "make test",
        "tokenizer=bpe",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Words that only speak of secrets are left alone."""
    assert redacted(text) == text


def test_a_private_key_goes_even_without_its_end() -> None:
    """A key that was cut off is hidden to the end."""
    text = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef"
    assert redacted("x " + text) == f"x {MARK}"


def test_key_names_of_the_shared_vectors(shared: Path) -> None:
    """Every key name that a correct writer hides is hidden here, and no other."""
    vectors = json.loads((shared / "traces/redaction-vectors.json").read_text())
    for case in vectors["keys"]:
        hidden = MARK in redacted(f"{case['key']}=some-value-9")
        assert hidden == case["should_redact"], case["key"]


@pytest.mark.parametrize(
    "unit", ["secret-", "token", "api_", "bearer ", "://", "-", "a=", "secret: "]
)
def test_time_is_linear(unit: str) -> None:
    """Text made to be slow takes no more than its length."""
    text = unit * (200_000 // len(unit))
    began = time.perf_counter()
    redacted(text)
    assert time.perf_counter() - began < 2


def test_a_salt_tells_secrets_apart_within_one_record_alone() -> None:
    """The same secret has one placeholder under one salt, and another under another."""
    text = "PASSWORD=hunter2 MY_PASSWORD=hunter2 TOKEN=other"
    one, two, three = (word.split("=")[1] for word in Hider(b"s" * 32).text(text).split(" ")[::3])
    assert one == two == three == "[hidden"  # the kind and the digest follow after blanks
    first, second, third = Hider(b"s" * 32).text(text).split("=")[1:]
    assert first.split("]")[0] == second.split("]")[0] != third.split("]")[0]
    assert Hider(b"t" * 32).text(text) != Hider(b"s" * 32).text(text)


def test_what_was_hidden_is_counted_by_kind() -> None:
    """Counts tell how many there were of each kind."""
    hider = Hider()
    hider.text("PASSWORD=a TOKEN=b https://u:p@h/ ghp_0123456789abcdef0123")
    assert dict(hider.counts) == {"name": 2, "userinfo": 1, "forge": 1}
