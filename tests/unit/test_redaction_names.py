"""Which names speak of a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.redaction.names import MAX_NAME_CHARS, secret_name

SECRET = """
    apiKey api_key x-api-key openaiApiKey accessToken refresh_token authToken bearer
    clientSecret privateKey passwd pwd cookie set-cookie AWS_SECRET_ACCESS_KEY GITHUB_TOKEN
    DATABASE_URL dbPassword userPassword2 PGPASSWORD smtp_pass _authToken connectionString
    mongodb_uri token proxy-authorization x-amz-security-token Ocp-Apim-Subscription-Key
    webhook_secret jwt npmtoken seed_phrase tokenSecret sshPassphrase SECRET_KEY_BASE
    access_tokens signingKey
""".split()  # noqa: SIM905 - a list of words reads better than a page of quotes
PLAIN = """
    max_tokens token_count tokens input_tokens eos_token pad_token_id next_page_token
    tokenizer public_key prompt_cache_key key keys keyboard monkey password_policy token_type
    secretary pass compass database url passage author authority expires_at logprobs
    cost_per_token
""".split()  # noqa: SIM905 - a list of words reads better than a page of quotes


@pytest.mark.parametrize("name", SECRET)
def test_it_speaks_of_a_secret(name: str) -> None:
    """Names of secrets are known in every spelling."""
    assert secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_it_speaks_of_something_else(name: str) -> None:
    """Names that only share letters or a subject with secrets are left alone."""
    assert not secret_name(name)


def test_a_name_has_an_end() -> None:
    """A text longer than any name is none."""
    assert not secret_name("password" * MAX_NAME_CHARS)


def test_shared_vectors(shared: Path) -> None:
    """Every key name that a correct writer hides is one here, and no other."""
    for case in json.loads((shared / "traces/redaction-vectors.json").read_text())["keys"]:
        assert secret_name(case["key"]) == case["should_redact"], case["key"]
