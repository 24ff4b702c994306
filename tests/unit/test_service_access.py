"""Keys of callers: which file is believed, and whom a key names."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import ConfigError, UnverifiableError
from broker.service.access import KeyHolder, ServiceKeys, private_text
from tests.servekit import EVALUATOR, KEYS, OPERATOR, private_file


def test_a_key_names_its_caller() -> None:
    """A header names who holds its key, whatever the scheme's case, and nobody else."""
    keys = ServiceKeys.read(KEYS)
    assert keys.caller(f"Bearer {EVALUATOR}") == KeyHolder("pep", "evaluator")
    assert keys.caller(f"bearer  {OPERATOR}") == KeyHolder("alex", "operator")
    for wrong in ("", EVALUATOR, "Bearer", "Bearer é", f"Basic {EVALUATOR}", f"Bearer {'e' * 39}"):
        assert keys.caller(wrong) is None


@pytest.mark.parametrize(
    "text",
    [
        "evaluator pep",
        "admin pep " + "k" * 32,
        "evaluator pep short",
        "evaluator p/p " + "k" * 32,
        "evaluator a " + "k" * 32 + "\noperator b " + "k" * 32,
    ],
)
def test_a_malformed_file_is_an_error_that_shows_no_key(text: str) -> None:
    """A line that is not understood is an error, which never repeats a key."""
    with pytest.raises(ConfigError) as told:
        ServiceKeys.read(text)
    assert "kkkk" not in str(told.value)


def test_only_a_private_file_is_believed(tmp_path: Path) -> None:
    """A file that others may read, a link and an empty one are errors."""
    path = private_file(tmp_path / "keys", KEYS)
    assert ServiceKeys.load(path).caller(f"Bearer {OPERATOR}") is not None
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UnverifiableError):
        ServiceKeys.load(tmp_path / "link")
    path.chmod(0o644)
    with pytest.raises(UnverifiableError, match="chmod 600"):
        private_text(path, "file")
    with pytest.raises(ConfigError, match="no key"):
        ServiceKeys.load(private_file(tmp_path / "none", "# nobody\n"))
