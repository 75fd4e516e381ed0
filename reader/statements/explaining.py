"""EXPLAIN: how much a statement reads, and what a change would do; nothing is changed.

Rule: a change is explained by its own SELECT, so its numbers are those that it would have now. They
cost what the SELECT costs, with ANALYZE or without.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.reader.query.answer import Answer
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.statements.clauses import Act
from blockstore.reader.statements.images import Selected
from blockstore.reader.statements.texts import Text, recognized
from blockstore.reader.statements.tokens import Cursor, tokens_of
from blockstore.table import Table

NUMBERS = pa.schema([("what", pa.string()), ("number", pa.int64())])
"""The columns of what EXPLAIN says."""
_ACTS = {Act.INSERT: "insert", Act.UPDATE: "update", Act.DELETE: "delete"}


def explained(syntax: Syntax, text: Text) -> tuple[Text, bool]:
    """The statement after EXPLAIN, and whether ANALYZE comes between them. Raises BadSql."""
    cursor = Cursor(text.sql)
    cursor.need("EXPLAIN")
    analyzes = cursor.take("ANALYZE")
    if cursor.word() == "(":
        raise cursor.wrong("EXPLAIN has no options here: expected a statement")
    start = cursor.here
    inner = recognized(syntax, text.sql, tokens_of(text.sql[start:]), start)
    return inner.within(text), analyzes


def query_of(answer: Answer, *, analyzes: bool) -> pa.Table:
    """What a query reads, and with ANALYZE how many rows it returns."""
    facts = _reads(answer)
    if analyzes:
        facts["rows"] = sum(batch.num_rows for batch in answer)
    return _table(facts)


def changes_of(answer: Answer, selected: Selected, table: Table) -> pa.Table:
    """What a change reads and would do."""
    facts = _reads(answer)
    counts = Counter[str]()
    sources = set[str]()
    plain = table.definition.identity is None
    for batch in answer:
        for number, act in enumerate(selected.acts, 1):
            rows = batch.filter(pc.equal(batch.column(0), number))
            counts[act] += rows.num_rows
            if plain and act in (Act.UPDATE, Act.DELETE):
                sources.update(pc.unique(rows.column(1)).to_pylist())
    for act, name in _ACTS.items():
        facts[f"rows to {name}"] = counts[act]
    if plain:
        hit = [one for one in table.log.state.blocks if not sources.isdisjoint(one.meta.sources)]
        facts["blocks to write again"] = len(hit)
        facts["bytes of these blocks"] = sum(one.meta.bytes for one in hit)
    return _table(facts)


def _reads(answer: Answer) -> dict[str, int]:
    facts = {
        f"version of {name}": version
        for name, version in answer.versions.items()
        if version is not None
    }
    read = answer.read
    return {
        **facts,
        "blocks to read": len({one.block for plan in answer.plans.values() for one in plan.chunks}),
        "chunks to read": read.chunks,
        "bytes of these chunks": read.bytes,
        "blocks left out": read.blocks_pruned,
        "chunks left out": read.chunks_pruned,
    }


def _table(facts: dict[str, int]) -> pa.Table:
    return pa.table([list(facts), list(facts.values())], NUMBERS)
