"""A Cedar policy, evaluated by Cedar itself."""

from __future__ import annotations

import sys

import pytest

from broker.calls import Call, UrlSubject
from broker.errors import ConfigError
from broker.opinions.cedar import Cedar
from tests.pdpkit import about, path

HOUSE = """
@id("sources") permit (principal, action, resource in Path::"src")
  when { context.access == "read" };
@id("api") permit (principal == Agent::"main", action == Action::"fetch",
  resource in Host::"example.com") when { context.port == 443 };
@id("tests") permit (principal, action, resource == Command::"make test");
@id("keys") forbid (principal, action, resource in Path::"src/keys");
"""


def _url(host: str, port: int = 443) -> UrlSubject:
    return UrlSubject("url", f"https://{host}/", "https", host, port, (host,))


def _say(policy: str, call: Call) -> tuple[str, str, str]:
    answer = Cedar("house", policy, "house.cedar").ask(about(call))
    return answer.said, answer.reason, answer.fault


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("read", paths=(path("src/a.py"),)), "allow"),
        (Call("read", paths=(path("src"),)), "allow"),
        (Call("read", paths=(path("src/a/b/c"), path("src/d"))), "allow"),
        (Call("read", paths=(path("src/a/b/c"), path("lib/d"))), "refuse"),
        (Call("edit", paths=(path("src/a.py", "write"),)), "refuse"),
        (Call("read", paths=(path("src/keys/k"),)), "refuse"),
        (Call("read", paths=(path("srcs/a.py"),)), "refuse"),
        (Call("fetch", urls=(_url("api.example.com"),)), "allow"),
        (Call("fetch", urls=(_url("example.com"),)), "allow"),
        (Call("fetch", urls=(_url("api.example.com", 8443),)), "refuse"),
        (Call("fetch", urls=(_url("badexample.com"),)), "refuse"),
        (Call("fetch", urls=(_url("example.com.evil.net"),)), "refuse"),
        (Call("think"), "refuse"),
        (Call("sh", command="make test"), "allow"),
        (Call("sh", command="make test; rm -r ."), "refuse"),
    ],
)
def test_folders_hosts_and_commands(call: Call, said: str) -> None:
    """A folder stands for what is below it, a host for its subdomains, and a forbid wins."""
    # Policies that look at `access` and `port` name what they are about, so that none fails.
    guarded = HOUSE.replace("context.access", "context has access && context.access").replace(
        "context.port", "context has port && context.port"
    )
    assert _say(guarded, call)[0] == said


def test_a_refusal_names_the_policy() -> None:
    """The model reads what is not allowed, and by which policy."""
    assert _say(HOUSE, Call("read", paths=(path("src/keys/k"),)))[1] == (
        "`read` on path `src/keys/k`: policy keys"
    )
    assert "no policy permits it" in _say(HOUSE, Call("read", paths=(path("x"),)))[1]


def test_a_policy_that_fails_is_no_answer() -> None:
    """A forbid that cannot be evaluated is not passed over, though another policy allows."""
    policy = (
        "permit (principal, action, resource); forbid (principal, action, resource) when {"
        " context.nope == 1 };"
    )
    said, reason, fault = _say(policy, Call("think"))
    assert (said, reason) == ("none", "")
    assert "nope" in fault


def test_names_are_never_syntax() -> None:
    """A name with a quote, a newline or a bracket in it is one name."""
    policy = 'permit (principal, action, resource == Path::"a");'
    for name in ('a"', 'a"; permit(principal,action,resource);', "a\nb", "a::b", "\\"):
        assert _say(policy, Call("read", paths=(path(name),)))[0] == "refuse"
    assert _say(policy, Call('r"x', paths=(path("a"),)))[0] == "allow"


def test_what_is_no_unicode_is_no_answer() -> None:
    """A name that Cedar cannot be told is not allowed, and nothing breaks."""
    said, _, fault = _say(
        "permit (principal, action, resource);", Call("r", paths=(path("\ud800"),))
    )
    assert said == "none"
    assert "evaluated" in fault


def test_a_path_outside_lies_in_no_folder_of_the_workspace() -> None:
    """`Path::"."` is the workspace, and nothing else is."""
    policy = 'permit (principal, action, resource in Path::".");'
    inside = path("a/b")
    outside = inside._replace(places=(), resolved="/etc/passwd")
    assert _say(policy, Call("read", paths=(inside,)))[0] == "allow"
    assert _say(policy, Call("read", paths=(path("."),)))[0] == "allow"
    assert _say(policy, Call("read", paths=(outside,)))[0] == "refuse"
    etc = 'permit (principal, action, resource in Path::"/etc");'
    assert _say(etc, Call("read", paths=(outside,)))[0] == "allow"


def test_the_digests_tell_policies_and_answers_apart() -> None:
    """Another policy, another question and another answer each have another digest."""
    read = about(Call("read", paths=(path("src/a.py"),)))
    one = Cedar("house", HOUSE, "f").ask(read)
    same = Cedar("house", HOUSE, "f").ask(read)
    other = Cedar("house", HOUSE + "// x\n", "f").ask(read)
    assert one == same
    assert one.asked != other.asked
    assert one.answered == other.answered
    assert Cedar("house", "", "f").ask(read).answered != one.answered


def test_what_is_no_policy() -> None:
    """A file that Cedar cannot read is told when the session begins."""
    with pytest.raises(ConfigError, match=r"`house.cedar` is no Cedar policy"):
        Cedar("house", "permit (", "house.cedar")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Cedar is not installed the session does not begin, and the person reads what to do."""
    monkeypatch.setitem(sys.modules, "cedarpy", None)
    with pytest.raises(ConfigError, match=r"capability-broker\[cedar\]"):
        Cedar("house", HOUSE, "house.cedar")
