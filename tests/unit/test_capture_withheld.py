"""Names that are withheld, and contents without their secrets."""

from __future__ import annotations

import pytest

from broker.capture.withheld import cleared, told, withheld
from broker.redaction.hiding import Hider
from tests.worldkit import SECRETS


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "app/.env.local", "prod.env", "env", "id_rsa", ".ssh/config", "k/id_ed25519"),
        *("tls/server.key", "cert.PEM", "store.jks", "credentials", "credentials.json"),
        *(
            "client_secret.json",
            "passwords.txt",
            "api-token.yaml",
            "secrets.yml",
            ".netrc",
            ".npmrc",
        ),
        *("service-account.json", "infra/terraform.tfstate", "prod.tfvars", ".vault-token"),
    ],
)
def test_names_of_secrets_are_withheld(name: str) -> None:
    """A file whose name says that it holds a secret is left out."""
    assert withheld(name)


@pytest.mark.parametrize(
    "name",
    [
        *(".env.example", "id_rsa.pub", "src/password.py", "tokenizer.json", "docs/secrets.html"),
        *("README.md", "package-lock.json", "keyboard.txt", "environment.yml", "src/token.rs"),
    ],
)
def test_other_names_are_not(name: str) -> None:
    """A file that only speaks of secrets is kept."""
    assert not withheld(name)


def test_a_program_stays_a_program() -> None:
    """Names of secrets in a program's text hide nothing; their values in configuration do."""
    program = b"def f(token: str, secret=load()):\n    password = token.strip()\n"
    assert cleared("a.py", program, Hider()) is program
    assert cleared("a.ini", b"password = hunter2\n", Hider()) == b"password = [hidden]\n"


@pytest.mark.parametrize("kind", SECRETS)
def test_every_form_is_hidden_everywhere(kind: str) -> None:
    """A secret that has a form is hidden in programs and in configuration, and in no path told."""
    secret = SECRETS[kind].encode()
    for name in ("a.py", "a.json", "noending"):
        found = cleared(name, b"x = '" + secret + b"'\n", Hider(b"salt"))
        assert found is not None
        assert secret not in found
    assert not told(f"logs/{SECRETS[kind]}.txt")


def test_what_is_no_text_is_left_out_whole() -> None:
    """A file that would break if a part of it were replaced is not kept at all."""
    secret = SECRETS["github"].encode()
    assert cleared("a.sqlite", b"\0" + secret, Hider()) is None
    assert cleared("a.dat", b"\xff " + secret, Hider()) is None
    assert cleared("a.dat", b"\0\xff\x00plain", Hider()) == b"\0\xff\x00plain"
