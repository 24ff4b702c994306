"""Scripts: what is written is what the model says, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.fs import SystemFiles
from broker.errors import InputError
from broker.harness.outcome import Result
from broker.harness.script import load_script, read_script
from broker.limits import MAX_SCRIPT_BYTES

REAL = SystemFiles()
CALL = {"tool": "read", "arguments": {"path": "a"}, "expect": "refused paths"}
DATA = {
    "name": "n",
    "about": "what it shows",
    "lanes": {"main": [{"text": "one"}, {"calls": [CALL]}], "other": []},
}
TOML = """
name = "n"
[[lanes.main]]
text = "one"
[[lanes.main]]
calls = [{tool = "read", arguments = {path = "a"}, expect = "refused paths"}]
"""


def test_json_and_toml_say_the_same(tmp_path: Path) -> None:
    """A script reads the same from either format."""
    (tmp_path / "s.json").write_text(json.dumps(DATA))
    (tmp_path / "s.toml").write_text(TOML)
    one, two = (
        load_script(REAL, str(tmp_path / "s.json")),
        load_script(REAL, str(tmp_path / "s.toml")),
    )
    assert one.lanes["main"] == two.lanes["main"]
    assert one.lanes["main"][1].calls[0].expect == "refused paths"


def test_a_model_follows_its_lane_whatever_comes_back() -> None:
    """Two models of one script say the same, and each ends where its lane ends."""
    script = read_script(DATA)
    one, two = script.model(), script.model()
    said = [one.turn([]), one.turn([Result("failed", "error")]), one.turn([])]
    assert said == [two.turn([Result("done", "x")]), two.turn([]), two.turn([Result("done", "y")])]
    assert said[2] is None


def test_a_prompt_names_its_lane() -> None:
    """A subagent's lane stands in its prompt; without one there is no model."""
    script = read_script(DATA)
    assert script.model("go [[lane:other]]").turn([]) is None
    for prompt in ("go", "go [[lane:missing]]"):
        with pytest.raises(InputError, match="no lane"):
            script.model(prompt)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "the script"),
        ({}, "lanes"),
        ({"lanes": {}}, "lanes has no `main`"),
        ({"lanes": {"main": {}}}, "lanes.main must be a list"),
        ({"lane": {}}, "`lane`"),
        ({"lanes": {"main": ["x"]}}, "lanes.main[0] must be a table"),
        ({"lanes": {"main": [{"say": "x"}]}}, "lanes.main[0] has no key `say`"),
        ({"lanes": {"main": [{"text": 1}]}}, "lanes.main[0].text must be a text"),
        ({"lanes": {"main": [{"calls": [{}]}]}}, "calls[0].tool must be a text"),
        ({"lanes": {"main": [{"calls": [{"tool": "t", "arguments": []}]}]}}, "arguments"),
        ({"lanes": {"main": [{"calls": [{**CALL, "expect": "ok"}]}]}}, "expect"),
    ],
)
def test_a_misspelt_script_is_an_error_that_names_the_place(data: object, place: str) -> None:
    """Whatever the agent does not understand is an error, with the place where it stands."""
    with pytest.raises(InputError) as caught:
        read_script(data)
    assert place in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1", "\udcff", "[" * 100_000, "9" * 5_000])
def test_a_broken_file_is_an_input_error(tmp_path: Path, text: str) -> None:
    """A file that is no script at all is an error of the input, never another one."""
    path = tmp_path / "s.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError):
        load_script(REAL, str(path))


def test_missing_and_oversized_files_are_input_errors(tmp_path: Path) -> None:
    """A file that is not there, or too large, is an error that says so."""
    with pytest.raises(InputError, match="no such file"):
        load_script(REAL, str(tmp_path / "missing.json"))
    (tmp_path / "big.json").write_text(" " * (MAX_SCRIPT_BYTES + 1))
    with pytest.raises(InputError, match="larger"):
        load_script(REAL, str(tmp_path / "big.json"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["lanes", "main", "text", "calls", "tool", "arguments", "x"]), inner
            )
        ),
    )
)
def test_any_data_is_a_script_or_an_input_error(data: object) -> None:
    """Reading is total: a script comes out, or an error of the input."""
    try:
        said = repr(read_script(data))
    except InputError as error:
        said = str(error)
    assert said.startswith(("script: ", "Script("))
