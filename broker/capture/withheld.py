"""
What of a workspace is not kept in a snapshot, and what is taken out of what is kept.

Decided here: which files are left out for their name alone, and how the secrets in a file's content
are hidden. Not decided here: what is ignored, too large or no file (``broker.capture.gathering``).

A snapshot is restored so that an agent, or its tests, run again. So of a program's text only what
has the form of a secret is hidden: hiding what merely follows a name, as in ``token = read()``,
would leave a program that does not run. In configuration and prose, where a value follows its name,
that is hidden too. A file that is no text and holds a secret is left out as a whole.

Rule a maintainer keeps: where a name may be a secret's, the file is left out.
"""

from __future__ import annotations

import re
from typing import Final

from broker.permissions.places import holds_credentials
from broker.redaction.hiding import Hider
from broker.redaction.names import secret_name
from broker.redaction.texts import secrets_in, shapes_in

_KEY_FILE: Final = re.compile(
    r"[^/]*\.(?:pem|key|p8|ppk|jks|keystore|asc|gpg|age|tfvars|tfstate|ovpn|mobileprovision)"
    r"|\.?env(?:\..*)?|[^/]*\.env|id_[a-z0-9_]+|service[-_]?account[^/]*\.json"
    r"|\.(?:dockercfg|s3cfg|boto|vault-token|terraformrc|my\.cnf|pgpass|authinfo|htpasswd)"
)
_HARMLESS: Final = re.compile(r"\.?env\.(?:example|sample|template|dist|defaults?)|[^/]*\.pub")
# Files in which a value stands behind its name; in others the name is most often a program's.
_DATA: Final = frozenset(
    """
    cfg conf config csv env ini json json5 jsonc jsonl log md properties rst toml txt xml yaml yml
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)


def withheld(path: str) -> bool:
    """
    Whether a file is left out for its name.

    Args:
        path: within the workspace.

    >>> withheld("deploy/server.pem"), withheld(".env"), withheld("config/secrets.yml")
    (True, True, True)
    >>> withheld(".env.example"), withheld("src/password_reset.py"), withheld("id_rsa.pub")
    (False, False, False)
    """
    name = path.rpartition("/")[2].lower()
    if _HARMLESS.fullmatch(name):
        return False
    if holds_credentials(path) or _KEY_FILE.fullmatch(name):
        return True
    stem, dot, ending = name.rpartition(".")
    return secret_name(stem if dot else ending) and (not dot or ending in _DATA)


def cleared(path: str, content: bytes, hider: Hider) -> bytes | None:
    """
    Return a file's content without its secrets; None for one that is no text and holds some.

    >>> cleared("a.yml", b"password: hunter2\\n", Hider())
    b'password: [hidden]\\n'
    >>> cleared("a.py", b"password = hunter()\\n", Hider())
    b'password = hunter()\\n'
    """
    text = content.decode("utf-8", "surrogateescape")
    found = secrets_in(text) if _data(path) else shapes_in(text)
    if not found:
        return content
    if b"\0" in content or not _utf8(content):
        return None
    return hider.replaced(text, found).encode("utf-8", "surrogateescape")


def told(path: str) -> bool:
    """Whether a path itself can be told: one that holds a secret cannot."""
    return not shapes_in(path)


def _data(path: str) -> bool:
    return path.rpartition(".")[2].lower() in _DATA


def _utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
