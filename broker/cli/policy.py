"""
`broker policy`: named scopes, and whether each keeps its own expectations.

Decided here: that a policy's tests run in an empty folder that is thrown away, so that neither
links nor files of a real workspace play a part.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import completing, policydiff, policytest, policywords
from broker.cli.exits import ALLOWED, MEANING, REFUSED
from broker.cli.output import json_out, out, paint, printable, table
from broker.cli.policies import find, folders, home
from broker.cli.typed import Json, folder

if TYPE_CHECKING:
    from broker.calls import Decision
    from broker.policy import Policy

LIST_EXAMPLES = f"""\
\b
Examples:
  broker policy list
  broker policy list --json

\b
{MEANING}
"""
SHOW_EXAMPLES = f"""\
\b
Examples:
  broker policy show fix-tests
  broker policy show ./team.scope
  broker scope show @fix-tests        the same, in plain words

\b
{MEANING}
"""
CHECK_EXAMPLES = """\
\b
Examples:
  broker policy check fix-tests
  broker policy check ./team.scope
  broker policy check                 every policy that can be named

\b
Exit code: 0 every expectation holds, 1 one does not, 2 no such policy or a malformed one.
"""

# What a ticket is bound to where an expectation says nothing of a line: no decision is given it,
# so whatever looks into the line refuses.
_NO_LINE = "-"

app = typer.Typer(
    help="Named scopes, each with tests of its own.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[
    str, typer.Argument(autocompletion=completing.policies, metavar="NAME|FILE", show_default=False)
]


@app.command("list", epilog=LIST_EXAMPLES)
def list_(as_json: Json = False) -> int:
    """List every policy that --scope @NAME can name."""
    from broker.policy import find_policy, policy_names

    own = folders()
    found = [find_policy(name, own) for name in policy_names(own)]
    if as_json:
        json_out([{"name": p.name, "about": p.about, "source": p.source} for p in found])
    else:
        for line in table([(f"@{p.name}", p.about) for p in found], ("policy", "what it is for")):
            out(line)
    return ALLOWED


@app.command("show", epilog=SHOW_EXAMPLES)
def show(name: Name, as_json: Json = False) -> int:
    """Show what a policy says, and what it expects of itself."""
    policy = find(name, folders())
    if as_json:
        json_out(
            {
                "name": policy.name,
                "about": policy.about,
                "source": policy.source,
                "texts": list(policy.texts),
                "expects": [e.text for e in policy.expects],
            }
        )
        return ALLOWED
    out(paint(f"@{printable(policy.name)}", "bold") + f"  {printable(policy.about)}")
    for line in (*policy.texts, *(e.text for e in policy.expects)):
        out(f"    {printable(line)}")
    return ALLOWED


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completing.policies, metavar="NAME|FILE", show_default=False),
    ] = None,
) -> int:
    """Run a policy's own tests in a throw-away workspace."""
    from broker.policy import policy_names

    own = folders()
    names = policy_names(own) if name is None else (name,)
    failed = 0
    for policy in [find(n, own) for n in names]:
        failures = _failures(policy)
        failed += len(failures)
        _report(policy, failures)
    return REFUSED if failed else ALLOWED


def _report(policy: Policy, failures: list[str]) -> None:
    count = len(policy.expects)
    if failures:
        head = paint("failed", "red")
        out(f"{head}  @{printable(policy.name)}: {len(failures)} of {count} expectations")
        for line in failures:
            out(f"    {printable(line)}")
    else:
        out(f"{paint('holds', 'green')}   @{printable(policy.name)}: {count} expectations")


def _failures(policy: Policy) -> list[str]:
    import tempfile
    from pathlib import Path

    from broker.catalogs import load_catalogs
    from broker.cli.dry import DryRun
    from broker.policy import check_expects

    here = home()
    at = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="broker-policy-") as empty:
        # What tools mean is looked up where the person stands, what lies where in no folder.
        catalogs = load_catalogs(Path(folder(None)), here.config)
        world = DryRun(os.path.realpath(empty), here, catalogs=catalogs)

        def decide(tool: str, arguments: dict[str, object], line: str) -> Decision:
            ticket = world.ticket(policy.texts, at, intent=line or _NO_LINE)
            return world.decide(ticket, tool, arguments, at=at, intent=line)

        return check_expects(policy, decide)


app.command("explain", epilog=policywords.EXAMPLES)(policywords.explained)
app.command("test", epilog=policytest.EXAMPLES)(policytest.run_tests)
app.command("diff", epilog=policydiff.EXAMPLES)(policydiff.diff)
