"""Random tables and random conditions over them, for the property tests of this folder."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

ODD = 'a.b "ü" c'
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint8()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(7, 2)),
        ("w", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("ms", tz="UTC")),
        ("day", pa.date32()),
        ("b", pa.bool_()),
        ("raw", pa.binary()),
        ("key", pa.binary(3)),
        (ODD, pa.int64()),
    ]
)
_EPOCH = datetime.datetime(2013, 1, 1)
_FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, 3.0, float("nan"), float("inf"), float("-inf")])
_WIDE = [
    *("9999999999999999999999999999.9999999999", "1234567890123456789012345678.0123456789"),
    *(
        "1234567890123456789012345678.0123456788",
        "12345678901234567890.0000000001",
        "0",
        "0.0000000001",
    ),
]
_SIGNED = [sign + number for number in _WIDE for sign in ("", "-")]
_VALUES = {
    "i": st.integers(-3, 3),
    "u": st.sampled_from([0, 1, 254, 255]),
    "f": _FLOATS,
    "g": _FLOATS,
    "d": st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("2.25"), Decimal("99999.99")]),
    "w": st.sampled_from([Decimal(number) for number in _SIGNED]),
    "s": st.sampled_from(
        ["", "a", "ab", "abc", "b", "Z", "ü", "a%", "a_b", "it's", "ab\0", "ab\0\0", "\0"]
    ),
    "t": st.integers(-3, 3).map(
        lambda hours: _EPOCH + datetime.timedelta(hours=hours, microseconds=hours)
    ),
    "z": st.integers(-3, 3).map(
        lambda hours: (_EPOCH + datetime.timedelta(hours=hours)).replace(tzinfo=datetime.UTC)
    ),
    "day": st.integers(-2, 2).map(lambda days: (_EPOCH + datetime.timedelta(days=days)).date()),
    "b": st.booleans(),
    "raw": st.sampled_from([b"", b"a", b"ab", b"ab\x00", b"\xff\x00", b"\\x61", "ü".encode()]),
    "key": st.sampled_from([b"abc", b"a\x00c", b"a\x00\x00", b"\xff\x00\\"]),
    ODD: st.integers(-2, 2),
}
_NUMBERS = st.sampled_from(
    ["-2", "-1.5", "0", "0.5", "1", "1.5", "2", "3", "254", "255", "256", "-1", "99999.999"]
)
_TIMES = st.sampled_from(
    [
        "'2013-01-01'",
        "DATE '2013-01-02'",
        "TIMESTAMP '2013-01-01 01:00:00.000001'",
        "TIMESTAMP '2012-12-31 12:30:00'",
    ]
)
_LITERALS = {
    **dict.fromkeys(("i", "u", "f", "g", "d", ODD), _NUMBERS),
    "w": st.sampled_from([form.format(number) for number in _SIGNED for form in ("{}", "'{}'")]),
    "s": st.sampled_from(
        ["''", "'a'", "'ab'", "'abc'", "'ü'", "'zz'", "'it''s'", "'ab\0'", "'ab\0\0'", "'\0'"]
    ),
    **dict.fromkeys(("t", "z"), st.one_of(_TIMES, st.just("'2013-01-01 02:00:00'"))),
    "day": _TIMES,
    "b": st.sampled_from(["TRUE", "FALSE"]),
    "raw": st.sampled_from(
        ["''", "'a'", "'ab\0'", r"'\x61'", r"'\xfF\x00'", r"'\x5Cx61'", "x'ff00'", "X'C3bc'", "x''"]
    ),
    "key": st.sampled_from(["'abc'", r"'a\x00c'", r"'a\x00\x00'", "x'ff005c'"]),
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@st.composite
def leaves(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(SCHEMA.names))
    column, literal = quoted(name), _LITERALS[name]
    shape = draw(st.integers(0, 8))
    shape = shape if shape != 8 else {"s": 3, "b": 4}.get(name, 1)
    negation = draw(st.sampled_from(["", "NOT "]))
    if shape == 0:
        return f"{column} IS {negation}NULL"
    if shape == 1:
        return f"{column} {negation}BETWEEN {draw(literal)} AND {draw(literal)}"
    if shape == 2:
        values = draw(
            st.lists(st.one_of(literal, literal, st.just("NULL")), min_size=1, max_size=3)
        )
        return f"{column} {negation}IN ({', '.join(values)})"
    if shape == 3 and name == "s":
        pattern = draw(st.sampled_from(["'a%'", "'%'", "'ab'", "'ü%'", "'a\\%%' ESCAPE '\\'"]))
        return f"{column} {negation}LIKE {pattern}"
    if shape == 4 and name == "b":
        return draw(
            st.sampled_from([column, f"{column} IS {negation}TRUE", f"{column} IS {negation}FALSE"])
        )
    if shape == 5:
        return f"{column} IS {negation}DISTINCT FROM {draw(literal)}"
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return f"{draw(literal)} {op} {column}" if shape == 6 else f"{column} {op} {draw(literal)}"


def conditions() -> st.SearchStrategy[str]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            inner.map("NOT ({})".format),
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda p: f"({p[0]}) {p[1]} ({p[2]})"
            ),
        ),
        max_leaves=5,
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {name: st.one_of(st.none(), value, value) for name, value in _VALUES.items()}
            ),
            min_size=1,
            max_size=6,
        )
    )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
