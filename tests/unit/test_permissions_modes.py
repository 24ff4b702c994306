"""The modes: each lets through no less than the one before, and yolo takes more than a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ConfigError, InputError
from broker.permissions.effects import EFFECTS
from broker.permissions.modes import MODES, Mode, answer, read_mode, settled, within

ORDER = ("refuse", "ask", "allow")


@pytest.mark.parametrize(
    ("mode", "calm", "tainted"),
    [
        ("read-only", "refuse", "refuse"),
        ("ask", "ask", "ask"),
        ("auto", "allow", "ask"),
        ("yolo", "allow", "allow"),
    ],
)
def test_what_each_mode_says(mode: Mode, calm: str, tainted: str) -> None:
    """Reading always runs; the rest is as the table says, and taint tightens `auto`."""
    assert answer(mode, "read") == answer(mode, "read", tainted=True) == "allow"
    for effect in ("write", "egress", "unseen"):
        assert answer(mode, effect) == calm
        assert answer(mode, effect, tainted=True) == tainted


@given(
    st.sampled_from([*EFFECTS, "novel"]), st.booleans(), st.sampled_from(MODES),
    st.sampled_from(MODES),
)  # fmt: skip
def test_a_narrower_mode_lets_through_no_more(
    effect: str, tainted: bool, one: Mode, two: Mode
) -> None:
    """Whatever the effect, a mode within another never answers more widely; taint never widens."""
    narrow, wide = (one, two) if within(one, two) else (two, one)
    said = [ORDER.index(answer(m, effect, tainted=tainted)) for m in (narrow, wide)]
    assert said[0] <= said[1]
    assert ORDER.index(answer(one, effect, tainted=True)) <= ORDER.index(answer(one, effect))


def test_an_effect_that_nobody_knows_never_just_runs() -> None:
    """A kind that is not in the table is asked about or refused, in every mode."""
    assert [answer(mode, "novel") for mode in MODES] == ["refuse", "ask", "ask", "ask"]


def test_modes_are_read_by_name() -> None:
    """Each mode has one spelling."""
    assert [read_mode(mode) for mode in MODES] == list(MODES)
    for text in ("", "YOLO", "readonly"):
        with pytest.raises(InputError, match="no mode"):
            read_mode(text)


@pytest.mark.parametrize(
    ("typed", "configured", "environ", "mode"),
    [
        (None, None, {}, "ask"),
        (None, "auto", {}, "auto"),
        ("read-only", "auto", {}, "read-only"),
        ("yolo", None, {}, "yolo"),
        ("ask", "yolo", {}, "ask"),
        (None, "yolo", {"BROKER_YOLO": "1"}, "yolo"),
        (None, None, {"BROKER_YOLO": "1"}, "ask"),
    ],
)
def test_a_run_s_mode_is_typed_or_configured(
    typed: Mode | None, configured: Mode | None, environ: dict[str, str], mode: str
) -> None:
    """What is typed wins, a configured yolo needs its confirmation, which alone does nothing."""
    assert settled(typed, configured, environ) == mode


@pytest.mark.parametrize("environ", [{}, {"BROKER_YOLO": ""}, {"BROKER_YOLO": "true"}])
def test_yolo_is_never_had_by_configuration_alone(environ: dict[str, str]) -> None:
    """A file that says yolo stops the run."""
    with pytest.raises(ConfigError) as caught:
        settled(None, "yolo", environ)
    assert caught.value.code == "config.yolo"
