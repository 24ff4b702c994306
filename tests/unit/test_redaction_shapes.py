"""Values that are secrets by their own form. All of them are made here, and open nothing."""

from __future__ import annotations

import random
import string

import pytest

from broker.redaction.names import secret_name
from broker.redaction.shapes import SHAPES, shaped
from broker.redaction.texts import secrets_in

_LETTERS = string.ascii_letters + string.digits
_RANDOM = random.Random(7)


def made(size: int, of: str = _LETTERS) -> str:
    """Return made-up characters."""
    return "".join(_RANDOM.choice(of) for _ in range(size))


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
MADE = {
    "sk-": f"sk-{made(48)}",
    "sk-ant": f"sk-ant-api03-{made(80)}-{made(10)}",
    "sk-proj": f"sk-proj-{made(60)}",
    "groq": f"gsk_{made(52)}",
    "xai": f"xai-{made(80)}",
    "perplexity": f"pplx-{made(48)}",
    "tavily": f"tvly-dev-{made(32)}",
    "hugging face": f"hf_{made(34)}",
    "replicate": f"r8_{made(37)}",
    "aws": f"AKIA{made(16, UPPER)}",
    "aws session": f"ASIA{made(16, UPPER)}",
    "google": f"AIza{made(35)}",
    "google oauth": f"ya29.a0{made(60)}",
    "google client": f"GOCSPX-{made(28)}",
    "digitalocean": f"dop_v1_{made(64, HEX)}",
    "databricks": f"dapi{made(32, HEX)}",
    "vault": f"hvs.{made(90)}",
    "github": f"ghp_{made(36)}",
    "github oauth": f"gho_{made(36)}",
    "github user": f"ghu_{made(36)}",
    "github app": f"ghs_{made(36)}",
    "github refresh": f"ghr_{made(76)}",
    "github fine": f"github_pat_{made(22)}_{made(59)}",
    "gitlab": f"glpat-{made(20)}",
    "atlassian": f"ATATT3xFfGF0{made(180)}",
    "npm": f"npm_{made(36)}",
    "pypi": f"pypi-AgEI{made(150)}",
    "rubygems": f"rubygems_{made(48, HEX)}",
    "docker": f"dckr_pat_{made(27)}",
    "slack bot": f"xoxb-{made(12, string.digits)}-{made(24)}",
    "slack user": f"xoxp-{made(12, string.digits)}-{made(24)}",
    "slack app": f"xapp-1-A{made(10, UPPER)}-{made(13, string.digits)}-{made(64, HEX)}",
    "stripe": f"sk_live_{made(24)}",
    "stripe test": f"sk_test_{made(24)}",
    "stripe restricted": f"rk_live_{made(24)}",
    "stripe webhook": f"whsec_{made(32)}",
    "square": f"sq0csp-{made(43)}",
    "sendgrid": f"SG.{made(22)}.{made(43)}",
    "mailgun": f"key-{made(32, HEX)}",
    "shopify": f"shpat_{made(32, HEX)}",
    "linear": f"lin_api_{made(40)}",
    "notion": f"ntn_{made(46)}",
    "figma": f"figd_{made(40)}",
    "grafana": f"glsa_{made(32)}_{made(8, HEX)}",
    "sentry": f"sntrys_{made(60)}",
    "new relic": f"NRAK-{made(27, UPPER)}",
    "postman": f"PMAK-{made(24, HEX)}-{made(34, HEX)}",
    "age": f"AGE-SECRET-KEY-1{made(58, UPPER)}",
    "jwt": f"eyJ{made(33)}.eyJ{made(60)}.{made(43)}",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{made(70)}\n-----END RSA PRIVATE KEY-----",
}  # fmt: skip
INSIDE = {
    "slack hook": ("https://hooks.slack.com/services/", f"T{made(8)}/B{made(8)}/{made(24)}"),
    "discord hook": ("https://discord.com/api/webhooks/", f"{made(18, string.digits)}/{made(68)}"),
    "aws link": ("https://b.s3.amazonaws.com/k?X-Amz-Signature=", made(64, HEX)),
    "azure link": ("https://a.blob.core.windows.net/c?sv=1&sig=", f"{made(42)}%3D"),
    "url": ("postgres://", "me:p4ss"),
    "long url": ("https://", f"me:{made(2_000)}"),
}


def test_there_are_more_than_forty() -> None:
    """Forty forms at the least are shown here, and each form of the table by one of them."""
    texts = [*MADE.values(), *(before + value for before, value in INSIDE.values())]
    assert len(texts) >= 40
    shown = {shape.begin for shape in SHAPES if any(shape.begin in text for text in texts)}
    left = {shape.begin for shape in SHAPES} - shown
    assert left == {f"xox{kind}-" for kind in "aeors"}  # the same form as xoxb and xoxp


@pytest.mark.parametrize("name", MADE)
def test_a_form_is_found_whole(name: str) -> None:
    """A secret without a name is found whole, in prose, in quotes and alone."""
    value = MADE[name]
    for text, at in ((f"use {value} now", 4), (f'"{value}"', 1), (value, 0), (f"({value})", 1)):
        spans = [(s.start, s.end) for s in secrets_in(text)]
        assert spans == [(at, at + len(value))], text


@pytest.mark.parametrize("name", INSIDE)
def test_a_form_within_an_address_is_found(name: str) -> None:
    """Of an address only its secret part goes."""
    before, value = INSIDE[name]
    text = f"{before}{value}@host/x" if name.endswith("url") else before + value
    assert [text[a:b] for a, b, _ in shaped(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "ask-me-anything-about-the-broker",
        "task-0123456789abcdef0123",
        "src/hf_model.py",
        "https://host/path?a=b@c",
        "eyJhbGciOiJIUzI1NiJ9",
        "-----BEGIN CERTIFICATE-----\nabc",
        "-----BEGIN PUBLIC KEY-----\nabc",
        "monkey-0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef01234567",
        "design=sig=",
    ],
)
def test_a_likeness_is_left_alone(text: str) -> None:
    """What only begins like a secret, is public, or is a digest, stays."""
    assert list(shaped(text)) == []


def test_no_kind_is_a_word_for_a_secret() -> None:
    """A placeholder tells the kind, and must not look like the name of another secret."""
    for kind in {shape.kind for shape in SHAPES} | {"name", "option", "scheme"}:
        assert not secret_name(kind)
        assert not secret_name(f"[hidden {kind} 0123abcd]")
