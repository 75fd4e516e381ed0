"""A plain condition means what the SQL parser reads in it, and needs no SQL parser."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.tokens import TokenType

from blockstore.errors import Invalid
from blockstore.predicate.nodes import Node
from blockstore.predicate.parse import syntax_tree
from blockstore.predicate.plain import plain
from blockstore.predicate.syntax import Dialect
from blockstore.predicate.translate import Translator
from tests.blockstore.predicate.conditions import ODD, SCHEMA, conditions
from tests.support.examples import few

PIECES = st.sampled_from(
    [
        *("i", "s", "I", '"i"', '"S"', f'"{ODD}"', "d", "f", "t", "b", "raw", "missing", "w"),
        *("=", "<", ">", "<=", ">=", "<>", "!=", "==", "-", "--", "+", "%", "||", "::", "->"),
        *("1", "-1", "0", "-0", "1.5", "1.", ".5", "1e3", "007", "1_0", "9" * 39, "0x1F", "$1"),
        *("'a'", "''", "'it''s'", r"'\x61'", "'2013-01-01'", "E'a'", "x'ff'", "'", '"'),
        *("AND", "and", "OR", "NOT", "IS", "NULL", "BETWEEN", "IN", "LIKE", "TRUE", "DISTINCT"),
        *("(", ")", ",", ";", ".", "/*", "*/", "\n", "\t", "\u00a0", "\u017f", "#", "[", "?"),
    ]
)


def by_sql(text: str, schema: pa.Schema) -> Node | None:
    """What the SQL parser reads, or None if it raises."""
    try:
        return Translator(schema).node(syntax_tree(text))
    except Invalid:
        return None


@settings(max_examples=few(200), deadline=None)
@given(conditions())
def test_a_plain_condition_is_what_the_sql_parser_reads(condition: str) -> None:
    found = plain(condition, SCHEMA)
    assert found is None or found == by_sql(condition, SCHEMA)


@settings(max_examples=few(400), deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=9), st.sampled_from(["", " "]))
def test_no_text_means_something_else(pieces: list[str], between: str) -> None:
    text = between.join(pieces)
    found = plain(text, SCHEMA)
    assert found is None or found == by_sql(text, SCHEMA), text


@pytest.mark.parametrize(
    "text",
    [
        "i = 1",
        " I<=-3 ",
        "i<>0 and i != 5",
        "i > 1.5",
        "id_2 BETWEEN 250000 AND 250999",
        "s = '' AND t >= '2013-01-01 02:00:00' AND d < 99999.999",
        '"I" in (1,-2 , 3) AND "day" <= \'2013-01-01\'',
        "s IN ('a', 'b -5')",
        "s is  not\nnull AND b IS NULL",
        "raw = 'ab' and b = 'true' and f > -0 and u = 256",
    ],
)
def test_these_are_plain(text: str) -> None:
    schema = SCHEMA.append(pa.field("id_2", pa.int64()))
    found = plain(text, schema)
    assert found is not None
    assert found == by_sql(text, schema)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i",
        "i = 1 OR i = 2",
        "NOT i = 1",
        "i = NULL",
        "i = 1e3",
        "w = " + "9" * 39,
        "i = 'x'",
        "i = 1 AND",
        "i = 1 -- all",
        "i = 1; i = 2",
        "missing = 1",
        "s = 'it''s'",
        "s = 'a' 'b'",
        "iIN (1)",
        "i = 1 AND(i = 2)",
    ],
)
def test_the_rest_is_left_to_the_sql_parser(text: str) -> None:
    assert plain(text, SCHEMA) is None


def test_a_word_of_sql_is_a_column_only_where_the_sql_parser_reads_it_so() -> None:
    parser = Dialect.Parser
    known = [*Dialect.Tokenizer.KEYWORDS, *parser.FUNCTIONS, *parser.NO_PAREN_FUNCTION_PARSERS]
    known += [each.name for each in (*TokenType, *parser.NO_PAREN_FUNCTIONS)]
    words = {word.lower() for one in known for word in one.split() if word.isidentifier()}
    assert len(words) > 500
    read_otherwise = {
        word
        for word in words
        for text in (f"{word} = '5'", f"z = '5' AND {word} IS NULL", f"{word} IN ('5', '6')")
        for schema in [pa.schema([(word, pa.string()), ("z", pa.string())])]
        if (found := plain(text, schema)) is not None and found != by_sql(text, schema)
    }
    assert read_otherwise == set()


def test_a_scan_by_a_plain_condition_loads_no_sql_parser() -> None:
    program = (
        "import sys, pyarrow as pa; from blockstore.predicate import parse; "
        "parse('id BETWEEN 5 AND 9', pa.schema([('id', pa.int64())])); "
        "print('sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
