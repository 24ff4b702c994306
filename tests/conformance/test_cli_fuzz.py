"""
`broker check` on hostile input, as a process of its own.

Whatever it is given: an exit code of 0, 1 or 2, one answer, no traceback, and the answer within a
second of processor time for the whole process (wall time would measure the machine's other work).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.console import Said, process

# Of the processor, so that it holds on a busy machine; bench/starts.py prints what an answer takes
# on a clock. Starting takes a quarter of it; where that takes longer, so does all the rest.
BUDGET_S = 1.0
STARTS = 4
SCOPE = ("--scope", "paths=src/**", "--scope", "hosts=a.test")
# An interpreter that may not keep its compiled modules compiles them anew at each start.
ENV = {"PYTHONDONTWRITEBYTECODE": ""}


def ask(*words: str | bytes, cwd: Path, stdin: bytes = b"", heavy: int = 1) -> Said:
    """
    Run a command; again when it took too long, since a busy machine slows everything.

    ``heavy`` is how many questions it holds that may each take the time of one command.
    """
    for _ in range(3):
        said = process(*words, cwd=cwd, stdin=stdin, env=ENV)
        if said.cpu_s < BUDGET_S * heavy:
            break
        start_s = process("--version", cwd=cwd, env=ENV).cpu_s
        if said.cpu_s < STARTS * start_s * heavy:
            break
    else:
        raise AssertionError(f"{said.cpu_s:.2f} s, and {start_s:.2f} s for a start")
    assert said.code in (0, 1, 2), said
    assert "Traceback" not in said.err
    assert "a fault of the broker" not in said.err
    return said


def check(*words: str | bytes, cwd: Path) -> Said:
    """Ask about one call: one line on stdout for an answer, one or a few on stderr for an error."""
    said = ask("check", *words, cwd=cwd)
    if said.code == 2:
        assert said.err.startswith("broker: ")
    else:
        assert said.out.startswith(("allowed", "refused")[said.code])
        assert said.out.count("\n") == 1
    return said


def batch(rows: bytes, cwd: Path, heavy: int = 1) -> Said:
    """Ask about many calls: every row has one answer of the three."""
    said = ask("check", "--batch", "-", stdin=rows, cwd=cwd, heavy=heavy)
    assert {row["decision"] for row in said.rows()} <= {"allow", "refuse", "error"}
    assert not [row for row in said.rows() if "could not decide" in str(row["reason"])]
    return said


def noise(seed: int, size: int = 60) -> bytes:
    """Return random bytes that a command line can carry."""
    return random.Random(seed).randbytes(size).replace(b"\0", b"") or b"x"


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_on_the_command_line(seed: int, tmp_path: Path) -> None:
    """Random bytes as tool, argument and scope get an answer."""
    words = [noise(seed), b"path=" + noise(seed + 100), b"x:=" + noise(seed + 200)]
    check(*SCOPE, "--", *words[:2], cwd=tmp_path)
    check(*SCOPE, "--", *words, cwd=tmp_path)
    check("read_file", b"--scope=" + noise(seed + 300), cwd=tmp_path)
    ask(*words, cwd=tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_in_a_batch(seed: int, tmp_path: Path) -> None:
    """A file of random bytes gets one answer for every line that is not blank."""
    data = noise(seed, 200_000)
    said = batch(data, tmp_path)
    lines = [line for line in data.split(b"\n") if line.strip(b" \t\r\n")]
    assert len(said.rows()) == len(lines)
    assert said.code == 2


def test_changed_rows(tmp_path: Path) -> None:
    """Rows with bytes changed, cut and doubled are answered, each on its own."""
    source = random.Random(7)
    row = json.dumps(
        {
            "scope": ["paths=src/**", "until=10m", "calls=3"],
            "tool": "edit_file",
            "arguments": {"path": "src/a.py", "old": "é", "new": ["x", {"y": None}]},
            "at": "2026-01-01T12:00:00Z",
            "spent": 1,
        }
    ).encode()
    rows = []
    for _ in range(400):
        data = bytearray(row)
        for _ in range(source.randint(1, 3)):
            at = source.randrange(len(data))
            data[at : at + source.randint(0, 3)] = source.randbytes(source.randint(0, 3))
        rows.append(bytes(data).replace(b"\n", b" "))
    said = batch(b"\n".join(rows), tmp_path)
    assert len(said.rows()) == 400


def asked(arguments: object, tool: object = "write_file") -> bytes:
    """Return a row with these arguments."""
    return json.dumps({"scope": ["paths=src/**"], "tool": tool, "arguments": arguments}).encode()


def inside(levels: int, content: object) -> dict[str, object]:
    """Return the arguments of a call that holds a call that holds a call."""
    arguments: dict[str, object] = {"path": "src/a", "content": content}
    tool = "write_file"
    for _ in range(levels):
        arguments = {"operations": [{"tool": tool, "args": arguments}]}
        tool = "batch"
    return arguments


HUGE: dict[str, Callable[[], bytes]] = {
    "10 MB of text": lambda: asked({"path": "src/a", "content": "x" * 10_000_000}),
    "10 MB of path": lambda: asked({"path": "src/" + "a/" * 5_000_000, "content": ""}),
    "10 MB of escapes": lambda: asked({"path": "src/a", "content": "\ud83d\u202e" * 830_000}),
    "a name of 10 MB": lambda: asked({"path": "src/a", "content": "", "x" * 10_000_000: 1}),
    "a tool of 10 MB": lambda: asked({}, "t" * 10_000_000),
    "10,000 deep lists": lambda: (
        b'{"scope":[],"tool":"x","arguments":{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}}"
    ),
    "10,000 deep objects": lambda: (
        b'{"scope":["paths=src"],"tool":"x","arguments":'
        + b'{"a":' * 10_000
        + b"1"
        + b"}" * 10_000
        + b"}"
    ),
    "1,000 deep": lambda: (
        b'{"scope":["paths=src"],"tool":"x","arguments":' + b'{"a":[' * 450 + b"]}" * 450 + b"}"
    ),
    "10,000 small patterns": lambda: json.dumps(
        {
            "scope": [f"paths={','.join(f'*{n}{k}' for n in range(999))},s*/*" for k in range(10)],
            "tool": "read_file",
            "arguments": {"path": "src/a"},
        }
    ).encode(),
    "8,000 stars": lambda: json.dumps(
        {
            "scope": [f"paths={','.join(f'*{n}*/b' for n in range(999))},s*/*"] * 8,
            "tool": "read_many",
            "arguments": {"paths": [f"src/{n}" for n in range(9_999)]},
        }
    ).encode(),
    "100,000 items": lambda: asked({"paths": ["src/a"] * 100_000}, "read_many"),
    "100,000 different paths": lambda: asked(
        {"paths": [f"src/{n}" for n in range(100_000)]}, "read_many"
    ),
    "100,000 paths of an unknown tool": lambda: asked(
        {"paths": [f"src/{n}" for n in range(100_000)]}, "novel"
    ),
    "100,000 absent folders": lambda: asked(
        {"paths": [f"src/{n}/a/b/c" for n in range(100_000)]}, "read_many"
    ),
    "100,000 steps up": lambda: asked(
        {"paths": [f"src/{n}/../{n}" for n in range(100_000)]}, "read_many"
    ),
    "long absent paths": lambda: asked(
        {"paths": [f"src/{n}/" + "a/" * 30_000 for n in range(40)]}, "read_many"
    ),
    "100,000 URLs": lambda: asked({"urls": [f"https://a{n}.test/" for n in range(100_000)]}, "got"),
    "100,000 headers": lambda: asked(
        {"url": "https://a.test/", "headers": {f"x{n}": "y" for n in range(100_000)}}, "fetch"
    ),
    "80,000 hosts": lambda: asked(
        {"url": "https://a.test/", "headers": [["Host", f"a{n}.test"] for n in range(80_000)]},
        "fetch",
    ),
    "100,000 files of a patch": lambda: asked(
        {"patch": "".join(f"*** Add File: src/{n}\n+x\n" for n in range(100_000))}, "apply_patch"
    ),
    "10 MB of patch": lambda: asked(
        {"patch": "*** Add File: src/a\n" + "+x\n" * 3_300_000}, "apply_patch"
    ),
    "4 MB of patch": lambda: asked(
        {"patch": "--- a/src/a\n+++ b/src/a\n@@ -1 +1,999999 @@\n" + "+a\n" * 999_999},
        "apply_patch",
    ),
    "100,000 calls in a call": lambda: asked(
        {"operations": [{"tool": "read_file", "args": {"path": "src/a"}}] * 100_000}, "batch"
    ),
    "100,000 paths in 900 calls": lambda: asked(
        {
            "operations": [
                {"tool": "read_many", "args": {"paths": [f"src/{k}/{n}" for n in range(110)]}}
                for k in range(900)
            ]
        },
        "batch",
    ),
    "20 calls, each in the one before": lambda: asked(inside(20, list(range(100_000))), "batch"),
    "100,000 rows": lambda: asked([{"file": f"src/{n}", "n": n} for n in range(100_000)], "novel"),
    "100,000 numbers of an unknown tool": lambda: asked({"n": list(range(100_000))}, "novel"),
    "10 MB of empty objects": lambda: asked({"x": [{}] * 2_500_000}, "novel"),
    "100,000 searched folders": lambda: asked(
        {"pattern": "x", "path": [f"src/{n}" for n in range(100_000)]}, "grep"
    ),
    "100,000 numbers": lambda: asked({"path": "src/a", "content": list(range(100_000))}),
    "100,000 names": lambda: asked({f"k{n}": n for n in range(100_000)}),
    "lone surrogates": lambda: asked({"path": "src/\ud800", "content": "\udfff"}),
    "a digit too many": lambda: b'{"scope":[],"tool":"x","arguments":{"n":' + b"9" * 5_000 + b"}}",
    "odd numbers": lambda: b'{"scope":[],"tool":"x","arguments":[NaN,Infinity,-0,1e999]}',
    "a scope of 10 MB": lambda: json.dumps({"scope": ["paths=" + "a," * 5_000_000]}).encode(),
    "100,000 texts": lambda: json.dumps({"scope": ["calls=1"] * 100_000}).encode(),
    "quotes": lambda: json.dumps({"scope": ['paths="' + '\\"' * 8_000]}).encode(),
    "brackets": lambda: json.dumps({"scope": ["paths=" + "[" * 4_000]}).encode(),
    "stars": lambda: json.dumps(
        {
            "scope": ["paths=" + "*a" * 2_000],
            "tool": "read_file",
            "arguments": {"path": "a" * 60_000 + "b"},
        }
    ).encode(),
    "star folders": lambda: json.dumps(
        {
            "scope": ["paths=" + "**/a/" * 60 + "x"],
            "tool": "read_file",
            "arguments": {"path": "a/" * 30_000 + "b"},
        }
    ).encode(),
    "a URL of 1 MB": lambda: json.dumps(
        {"scope": ["hosts=*"], "tool": "fetch", "arguments": {"url": "https://a" + "." * 1_000_000}}
    ).encode(),
}


@pytest.mark.parametrize("names", [list(HUGE)[n::6] for n in range(6)], ids=range(6))
def test_huge_and_deep(names: list[str], tmp_path: Path) -> None:
    """Arguments of any size and depth get one answer, and the row behind them its own."""
    plain = asked({"path": "src/a", "content": ""})
    rows = b"\n".join(row for name in names for row in (HUGE[name](), plain))
    answers = batch(rows, tmp_path, len(names)).rows()
    assert len(answers) == 2 * len(names)
    for name, first, second in zip(names, answers[::2], answers[1::2], strict=True):
        assert first["decision"] in {"allow", "refuse", "error"}, name
        assert second["decision"] == "allow", name


def test_links_that_go_on_and_on(tmp_path: Path) -> None:
    """Forty links of two thousand parts each, gone through ten thousand times, are answered too."""
    for n in range(40):
        (tmp_path / f"l{n}").symlink_to("./" * 2_000 + (f"l{n - 1}" if n else "none"))
    for last in ("l39/{}", "l39/./{}/.."):
        names = [last.format(n) for n in range(9_999)]
        said = batch(asked({"paths": names}, "read_many"), tmp_path)
        [answer] = said.rows()
        assert "too many parts" in str(answer["reason"])


@pytest.mark.parametrize("tool", ["read_many", "novel"])
def test_as_many_places_as_one_call_may_touch(tool: str, tmp_path: Path) -> None:
    """Ten thousand places are read, and all of them are judged; one more is said to be too many."""
    names = [f"src/{n}" for n in range(10_000)]
    asking = {"scope": ["paths=src/**", f"tools={tool}"], "tool": tool}
    rows = [
        {**asking, "arguments": {"paths": paths}}
        for paths in (names, [*names[:-1], "lib"], [*names, "src/x"])
    ]
    answers = batch("\n".join(map(json.dumps, rows)).encode(), tmp_path).rows()
    assert [answer["decision"] for answer in answers] == ["allow", "refuse", "refuse"]
    assert "`lib`" in answers[1]["reason"]
    assert "more than 10000 different places: split it" in answers[2]["reason"]


def test_surrogates_survive(tmp_path: Path) -> None:
    """Half characters come in and go out as JSON escapes, in ASCII."""
    row = {"scope": ["tools=a"], "tool": "b", "arguments": {"\ud800": "\udfff"}, "id": "\udfff"}
    given = json.dumps(row).encode()
    said = batch(given, tmp_path)
    assert said.out.isascii()
    (answer,) = said.rows()
    assert answer["decision"] == "refuse"
    assert answer["id"] == "\udfff"


def test_single_calls(tmp_path: Path) -> None:
    """The same on the command line, as far as one can carry it."""
    deep = "[" * 10_000 + "]" * 10_000
    items = json.dumps(["src/a"] * 12_000)
    for words in (
        ("read_file", "path=" + "a/" * 60_000),
        ("x", f"a:={deep}"),
        ("read_many", f"paths:={items}"),
        ("read_file", b"path=src/\xff\xfe"),
        ("read_file", "path=src/\x1b[2J\u202e"),
        ("x" * 100_000,),
        ("x", *(f"a{n}=b" for n in range(20_000))),
    ):
        said = check(*SCOPE, "--", *words, cwd=tmp_path)
        assert "\x1b" not in said.out + said.err
        assert "\u202e" not in said.out + said.err


@pytest.mark.parametrize("name", ["tickets", "policies", "scopes"])
def test_other_readers(name: str, tmp_path: Path) -> None:
    """Every other command that reads a file or a text takes noise for what it is: 2."""
    for seed in range(3):
        place = tmp_path / f"{seed}.scope"
        place.write_bytes(noise(seed, 5_000))
        words: tuple[str | bytes, ...] = {
            "tickets": ("ticket", "verify", os.fspath(place)),
            "policies": ("policy", "check", os.fspath(place)),
            "scopes": ("scope", "show", "--", noise(seed)),
        }[name]
        said = ask(*words, cwd=tmp_path)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("broker: ")
