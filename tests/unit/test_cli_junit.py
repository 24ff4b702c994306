"""Results as JUnit XML, read back and held against the common schema."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from broker.cli.junit import Case, Suite, junit

# Jenkins' junit-10.xsd, of what is written here: attributes (with `!` required) and children.
SCHEMA = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, ["testsuite"]),
    "testsuite": (
        {"name!", "tests!", "failures", "errors", "time", "disabled", "skipped", "timestamp"}
        | {"hostname", "id", "package"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "testcase": (
        {"name!", "assertions", "time", "classname", "status"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "failure": ({"type", "message"}, []),
    "skipped": ({"type", "message"}, []),
}


def check(element: ET.Element) -> None:
    """Check an element and all below it against the schema."""
    attributes, children = SCHEMA[element.tag]
    assert set(element.attrib) <= {name.rstrip("!") for name in attributes}
    assert {name[:-1] for name in attributes if name.endswith("!")} <= set(element.attrib)
    for child in element:
        assert child.tag in children
        check(child)


texts = st.text(max_size=20)
cases = st.builds(Case, texts, texts, st.sampled_from(["passed", "failed", "skipped"]), texts)
suites = st.lists(st.builds(Suite, texts, st.lists(cases, max_size=4).map(tuple)), max_size=3)


@given(suites)
def test_it_is_valid_and_counts_what_it_holds(given_suites: list[Suite]) -> None:
    """Whatever is in a name or a reason, a reader gets one document, and its sums are right."""
    root = ET.fromstring(junit(given_suites))
    check(root)
    for element, suite in zip(root, given_suites, strict=True):
        found = list(element.iter("testcase"))
        assert element.get("tests") == str(len(found)) == str(len(suite.cases))
        assert element.get("failures") == str(len(list(element.iter("failure"))))
        assert element.get("skipped") == str(len(list(element.iter("skipped"))))
    assert root.get("failures") == str(len(list(root.iter("failure"))))
