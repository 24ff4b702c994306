"""What the model is told first."""

from __future__ import annotations

import re

from broker.agentloop.prompt import SECTIONS, prompt_text


def test_the_prompt_names_no_place_and_no_day() -> None:
    """It is the same text everywhere and always, so that two runs can be compared."""
    text = prompt_text()
    assert not re.search(r"/\w|[0-9]{4}|\$", text)
    assert [section.name for section in SECTIONS] == [
        "task",
        "workspace",
        "refusals",
        "results",
        "helpers",
    ]
