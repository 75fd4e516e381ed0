"""Values as PostgreSQL writes them in text.

Rule: a whole column at a time, by Arrow where it has the function; values that Arrow writes in
another way (NaN, years before 1, bytes, lists) are written one by one.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.reader.forms.encode import json_value
from blockstore.reader.forms.text import readable
from blockstore.reader.postgres.intervals import interval_text
from blockstore.reader.postgres.types import (
    ELEMENTS,
    JSON,
    NUMERIC,
    VECTOR,
    is_bytes,
    type_of,
)

_DAY_US = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last one of the year 9999."""
_USUAL_US = _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1
_EARLY = re.compile(r"(-?\d+)(-.*)")


def text_of(column: pa.Array, shown: int | None = None, *, iso: bool = False) -> pa.Array:
    """The column as texts; null stays null. ``shown``: the type that the client was shown. ``iso``:
    intervals are written as ISO 8601 has them."""
    kind = column.type
    if shown == VECTOR:
        return pc.binary_join(column.cast(pa.list_(pa.string())), " ")
    if isinstance(kind, pa.ExtensionType):
        return _extension(column)
    if pt.is_dictionary(kind):
        return text_of(column.dictionary_decode(), iso=iso)
    oid = type_of(kind)
    if pt.is_boolean(kind):
        return pc.if_else(column, "t", "f")
    if pt.is_floating(kind):
        return _floats(column)
    if pt.is_date(kind) or pt.is_time(kind) or pt.is_timestamp(kind):
        return _moments(column)
    if oid == JSON:
        return json_of(column)
    if oid in ELEMENTS:
        return _lists(column, iso=iso)
    if is_bytes(kind):
        return _each(column, lambda value: "\\x" + value.hex())
    if pt.is_interval(kind) or pt.is_duration(kind):
        column = column.cast(pa.duration("us")) if pt.is_duration(kind) else column
        return _each(column, lambda value: interval_text(value, iso=iso))
    if oid == NUMERIC:
        return _digits(column)
    return column.cast(pa.string())


def json_of(column: pa.Array) -> pa.Array:
    """A nested column as JSON."""
    return _each(
        readable(column),
        lambda value: orjson.dumps(value, default=json_value, option=orjson.OPT_UTC_Z).decode(),
    )


def _each(column: pa.Array, write: Any) -> pa.Array:
    texts = [None if value is None else write(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _extension(column: pa.Array) -> pa.Array:
    if column.type.extension_name == "arrow.uuid":
        return _each(column, str)
    return text_of(column.storage)


def _floats(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.float32() if pt.is_float16(column.type) else column.type)
    texts = texts.cast(pa.string())
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return texts
    texts = pc.if_else(pc.is_nan(column), "NaN", texts)
    infinite = pc.is_inf(column)
    signed = pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity")
    return pc.if_else(infinite, signed, texts)


def _digits(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if not pc.any(pc.match_substring(texts, "E"), min_count=0).as_py():
        return texts
    return _each(texts, lambda text: format(Decimal(text), "f"))


def _moments(column: pa.Array) -> pa.Array:
    """Dates, times of day and moments. Arrow writes the usual ones; a zone makes it slow."""
    kind = column.type
    zone = pt.is_timestamp(kind) and kind.tz is not None
    if pt.is_date(kind):
        column = column.cast(pa.date32())
        counts, least, most = column.view(pa.int32()), _FIRST_DAY, _LAST_DAY
    else:
        fine = pa.time64("us") if pt.is_time(kind) else pa.timestamp("us", kind.tz)
        column = column.cast(fine, safe=False)
        counts = column.view(pa.int64())
        least, most = (0, _DAY_US - 1) if pt.is_time(kind) else _USUAL_US
    ends = pc.min_max(counts).as_py()
    if ends["min"] is not None and not least <= ends["min"] <= ends["max"] <= most:
        return _odd_moments(column)
    if not pt.is_date(kind):
        whole = pc.equal(counts, pc.multiply(pc.divide(counts, 1_000_000), 1_000_000))
        seconds = pa.time32("s") if pt.is_time(kind) else pa.timestamp("s")
        column = column.view(pa.timestamp("us")) if zone else column
        if pc.all(whole, min_count=0).as_py():
            column = column.cast(seconds)
        else:  # six digits each, of which PostgreSQL leaves out the zeros at the end
            texts = pc.ascii_rtrim(column.cast(pa.string()), "0")
            column = pc.ascii_rtrim(texts, ".")
    texts = column.cast(pa.string())
    return pc.binary_join_element_wise(texts, "+00", "") if zone else texts


def _odd_moments(column: pa.Array) -> pa.Array:
    """Those that Arrow does not write as PostgreSQL does: infinity, and years before 1."""
    texts = readable(column)
    if pt.is_time(column.type):
        return texts
    texts = pc.replace_substring(texts, "T", " ", max_replacements=1)
    return _each(pc.replace_substring(texts, "Z", "+00"), _with_era)


def _with_era(text: str) -> str:
    """A year before 1 as PostgreSQL writes it: the year -1 of ISO 8601 is 2 BC."""
    found = _EARLY.fullmatch(text)
    if found is None or int(found[1]) > 0:
        return text
    return f"{1 - int(found[1]):04}{found[2]} BC"


def _lists(column: pa.Array, *, iso: bool) -> pa.Array:
    """Lists as PostgreSQL writes arrays: ``{1,NULL,"a b"}``."""
    texts = text_of(pc.list_flatten(column), iso=iso)
    texts = pc.fill_null(pc.if_else(_is_quoted(texts), _quoted(texts), texts), "NULL")
    offsets = offsets_of(column)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    joined = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.string()))


def _is_quoted(texts: pa.Array) -> pa.Array:
    return pc.or_(
        pc.match_substring_regex(texts, r"""^$|[\s\v{}",\\]"""),
        pc.match_substring_regex(texts, "(?i)^null$"),
    )


def _quoted(texts: pa.Array) -> pa.Array:
    texts = pc.replace_substring(texts, "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    return pc.binary_join_element_wise('"', texts, '"', "")


def offsets_of(column: pa.Array) -> pa.Array:
    """Where each list begins among the elements of all lists; a list that is null has none."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
