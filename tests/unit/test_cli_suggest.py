"""`broker suggest` prints the narrowest readable scope, and writes it as a policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.home import Home
from tests.console import Console
from tests.sessionkit import Bench


@pytest.fixture
def sid(tmp_path: Path, broker_home: Path) -> str:
    """A session that read one file and edited two."""
    bench = Bench(tmp_path, Home.find({"BROKER_HOME": str(broker_home)}))
    session = bench.open([])
    for name in ("src/a.py", "src/b.py"):
        session.decide("Edit", {"file_path": name, "old_string": "a", "new_string": "b"})
    session.decide("Read", {"file_path": "README.md"})
    session.decide("Bash", {"command": "pytest -q"})
    session.seal()
    return session.sid


def _scope(out: str) -> list[str]:
    return [line for line in out.splitlines() if "=" in line.split(" ")[0]]


def test_the_scope_is_printed_as_it_is_typed(broker: Console, sid: str) -> None:
    """Each line that holds a text can be given to --scope, with reasons below it."""
    said = broker("suggest")
    assert said.code == 0
    assert _scope(said.out) == [
        "tools=@reads,Bash,Edit",
        "reads=README.md",
        "writes=src/*",
        "hosts=none",
        "calls=8",
    ]
    assert "2 entries of `src`: a.py, b.py" in said.out
    assert "without it refused: line" in said.out


def test_what_is_suggested_refuses_nothing(broker: Console, sid: str) -> None:
    """`whatif` under the suggested scope refuses no call of the run."""
    answer = broker("suggest", sid, "--json").json()
    assert isinstance(answer, dict)
    words = [word for text in answer["scope"] for word in ("--scope", text)]
    assert broker("whatif", sid, *words).code == 0


def test_it_is_written_as_a_policy(broker: Console, sid: str, broker_home: Path) -> None:
    """The file keeps its own expectations, can be named, and is not overwritten."""
    said = broker("suggest", "--write", "tidy")
    path = broker_home / "config" / "policies" / "tidy.scope"
    assert said.code == 0
    assert str(path) in said.err
    text = path.read_text(encoding="utf-8")
    assert "expect allow  Edit" in text
    assert "expect refuse fetch" in text
    assert broker("policy", "check", "tidy").code == 0
    assert broker("whatif", "--scope", "@tidy").code == 0
    path.write_text("# Mine.\ncalls = 1\n", encoding="utf-8")
    again = broker("suggest", "--write", "tidy")
    assert (again.code, path.read_text(encoding="utf-8")) == (2, "# Mine.\ncalls = 1\n")
    assert broker("suggest", "--write", "tidy", "--force").code == 0
    assert path.read_text(encoding="utf-8") == text
    assert [each.name for each in path.parent.iterdir()] == ["tidy.scope"]


def test_bad_words(broker: Console, sid: str) -> None:
    """A name that is no policy's, --force alone and an unknown run are bad input."""
    assert broker("suggest", "--write", "../x").code == 2
    assert broker("suggest", "--force").code == 2
    assert broker("suggest", "nosuch").code == 2


def test_conditions_need_arguments(broker: Console, sid: str) -> None:
    """A receipt alone has digests of them: the tools are named without, and it is said why."""
    said = broker("suggest", sid, "--conditions")
    assert said.code == 0, said.err
    assert "no conditions, since its arguments are not all known" in said.out
    assert _scope(said.out) == _scope(broker("suggest", sid).out)
