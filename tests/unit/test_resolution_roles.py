"""The tables of roles name roles that catalogs know, and nothing else."""

from __future__ import annotations

from broker.catalogs.entry import ROLES
from broker.resolution import roles


def test_every_table_names_roles_of_catalogs() -> None:
    """A role that is misspelled here would be read as nothing at all."""
    tables = (roles.ACCESS, roles.PLAIN, roles.BESIDE, roles.TOPS, roles.WHOLE, roles.STAYS)
    assert {role for table in tables for role in table} <= set(ROLES)


def test_every_path_role_says_how_it_touches() -> None:
    """No role of paths is left without an access, and what takes a whole tree is a path."""
    assert {role for role in ROLES if role.startswith("path-")} == set(roles.ACCESS)
    assert set(roles.ACCESS) >= roles.TOPS | roles.WHOLE | roles.STAYS
