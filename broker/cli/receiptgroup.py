"""
`broker receipt`: a command that shows a session, and a group of commands beside it.

Decided here: that `broker receipt k3v` means `broker receipt show k3v`, since it is what a
person types most; a first word that names a command is that command. A session whose name
begins like a command is reached by `show`. Not decided here: what the commands do.
"""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperGroup

from broker.cli import adopt, anchor, disclose, export, mirror, prove, receipt, verifyexport

_DEFAULT: Final = "show"
_HELP: Final = frozenset(("-h", "--help"))


class _Receipt(TyperGroup):
    """Takes any other first word, and no word at all, as one for `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in _HELP):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of `show`, with the other commands in the middle."""
        show = self.commands[_DEFAULT]
        shown = type(ctx)(show, info_name=ctx.info_name, parent=ctx.parent)
        show.format_usage(shown, formatter)
        show.format_help_text(shown, formatter)
        show.format_options(shown, formatter)
        self.format_commands(ctx, formatter)
        show.format_epilog(shown, formatter)


app = typer.Typer(cls=_Receipt, help="Show and verify the record of a session.")
app.command(_DEFAULT, epilog=receipt.EXAMPLES)(receipt.receipt)
app.command("prove", epilog=prove.PROVE_EXAMPLES)(prove.prove)
app.command("verify-proof", epilog=prove.VERIFY_EXAMPLES)(prove.verify_proof)
app.command("anchor", epilog=anchor.EXAMPLES)(anchor.anchor)
app.command("mirror", epilog=mirror.EXAMPLES)(mirror.mirror)
app.command("disclose", epilog=disclose.DISCLOSE)(disclose.disclose)
app.command("verify-disclosure", epilog=disclose.VERIFY)(disclose.verify_disclosure)
app.command("erase", epilog=disclose.ERASE)(disclose.erase)
app.command("export", epilog=export.EXAMPLES)(export.export)
app.command("verify-export", epilog=verifyexport.EXAMPLES)(verifyexport.verify_export)
app.command("adopt", epilog=adopt.ADOPT_EXAMPLES)(adopt.adopt)
app.command("retire", epilog=adopt.RETIRE_EXAMPLES)(adopt.retire)
