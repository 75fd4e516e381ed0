"""SQLAlchemy's tests of a dialect.

Their tables have what no test here is about, and what a gateway refuses or does not give: UNIQUE
and REFERENCES are left out, and a number that a database would count up is given by the client.
"""

from __future__ import annotations

import itertools
from typing import Any

import sqlalchemy as sa
from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403

from blockstore.client.dialect import BlockstoreDialect
from tests.blockstore.client.alchemy.requirements import NOT

_ddl = BlockstoreDialect.ddl_compiler
_ddl.visit_unique_constraint = _ddl.visit_foreign_key_constraint = lambda *_, **__: None
_numbers = itertools.count(1_000)


@sa.event.listens_for(sa.Column, "after_parent_attach")
def _numbered(column: Any, table: Any) -> None:
    counted = column.primary_key and isinstance(column.type, sa.Integer) and column.default is None
    if isinstance(table, sa.Table) and counted and column.autoincrement is not False:
        sa.ColumnDefault(lambda: next(_numbers))._set_parent_with_dispatch(column)


suite.HasTableTest.define_views = classmethod(lambda *_: None)  # it has no requirement there
for _names in NOT.values():
    for _class, _test in (_name.split(".") for _name in _names.split()):
        if _test == "*":
            del globals()[_class]
        else:
            assert hasattr(getattr(suite, _class), _test), _test
            setattr(getattr(suite, _class), _test, None)
