"""The file of subjects: what it may say, and what is an error."""

from __future__ import annotations

import pytest

from broker.errors import ConfigError
from broker.service.subjects import Subjects, SubjectTicket


def test_a_file_names_tickets_and_their_subjects() -> None:
    """Each table is one ticket, and the top says what the root permits."""
    found = Subjects.read(
        'scope = ["tools=@reads"]\n[[ticket]]\nfor = ["user:a", "agent:b:c"]\nscope = ["calls=3"]'
    )
    assert found.texts == ("tools=@reads",)
    assert found.tickets == (SubjectTicket(("user:a", "agent:b:c"), ("calls=3",)),)


@pytest.mark.parametrize(
    "text",
    [
        "scope = 3",
        "scoop = []",
        "[ticket]\nfor = []",
        "[[ticket]]\nfor = []\nscope = ['calls=1']",
        "[[ticket]]\nfor = ['user:a']\nscope = []",
        "[[ticket]]\nfor = ['user']\nscope = ['calls=1']",
        "[[ticket]]\nfor = [':a']\nscope = ['calls=1']",
        "[[ticket]]\nfor = ['user:a']\nscope = ['calls=1']\nscop = []",
        "[[ticket]]\nfor = ['user:a', 'user:a']\nscope = ['calls=1']",
        2 * "[[ticket]]\nfor = ['u:a']\nscope = ['calls=1']\n",
        "= no toml",
    ],
)
def test_what_is_not_understood_is_an_error(text: str) -> None:
    """A word that is not known, an empty list and a subject that stands twice are errors."""
    with pytest.raises(ConfigError):
        Subjects.read(text)
