"""``to_char``, ``to_date`` and ``to_timestamp`` of PostgreSQL, by the patterns of their formats.

Rules:
- A format means what it means in PostgreSQL, or it is refused with the pattern that is not here.
- ``to_char`` is of moments, which are in UTC; numbers and intervals have other patterns.
- A text that has another shape than its format says is an error; PostgreSQL takes some of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

from blockstore.reader.postgres.states import FEATURE, Refused

FORMATTED = frozenset({"to_char", "to_date", "to_timestamp"})


class PostgresSql(Postgres):
    """sqlglot's PostgreSQL, but for functions whose formats it does not read completely."""

    class Parser(Postgres.Parser):
        FUNCTIONS = {
            name: made
            for name, made in Postgres.Parser.FUNCTIONS.items()
            if name.lower() not in FORMATTED
        }


_US = "(microsecond({m}) % 1000000)"
_NUMBERS: dict[str, tuple[str, int]] = {
    "Y,YYY": ("year({m})", 0),
    "YYYY": ("year({m})", 4),
    "YYY": ("year({m}) % 1000", 3),
    "YY": ("year({m}) % 100", 2),
    "Y": ("year({m}) % 10", 1),
    "IYYY": ("isoyear({m})", 4),
    "IYY": ("isoyear({m}) % 1000", 3),
    "IY": ("isoyear({m}) % 100", 2),
    "I": ("isoyear({m}) % 10", 1),
    "CC": ("century({m})", 2),
    "Q": ("quarter({m})", 1),
    "MM": ("month({m})", 2),
    "WW": ("(dayofyear({m}) + 6) // 7", 2),
    "IW": ("week({m})", 2),
    "W": ("(day({m}) + 6) // 7", 1),
    "DDD": ("dayofyear({m})", 3),
    "IDDD": ("week({m}) * 7 - 7 + isodow({m})", 3),
    "DD": ("day({m})", 2),
    "D": ("dayofweek({m}) + 1", 1),
    "ID": ("isodow({m})", 1),
    "J": ("CAST(julian(CAST({m} AS DATE)) AS BIGINT)", 1),
    "HH24": ("hour({m})", 2),
    "HH12": ("(hour({m}) + 11) % 12 + 1", 2),
    "HH": ("(hour({m}) + 11) % 12 + 1", 2),
    "MI": ("minute({m})", 2),
    "SS": ("second({m})", 2),
    **dict.fromkeys(("SSSS", "SSSSS"), ("hour({m}) * 3600 + minute({m}) * 60 + second({m})", 1)),
    "MS": (f"{_US} // 1000", -3),
    "US": (_US, -6),
    **{f"FF{digits}": (f"{_US} // {10 ** (6 - digits)}", -digits) for digits in range(1, 7)},
}
"""Numbers, and how many digits they have at least; below 0, if FM does not change that."""
_PLAIN = {"YYYY": "Y", "MM": "m", "DD": "d", "DDD": "j", "HH24": "H", "HH12": "I", "HH": "I"}
_PLAIN |= {"MI": "M", "SS": "S", "MS": "g", "US": "f", "YY": "y", "IYYY": "G", "IW": "V"}
"""What ``strftime`` writes in the same way."""
_SHORT = frozenset({"m", "d", "j", "H", "I", "M", "S", "y"})
"""What it writes without zeros, with ``-``."""
_NAMES = {"MONTH": ("B", 9), "MON": ("b", 0), "DAY": ("A", 9), "DY": ("a", 0)}
"""Names, and how long they are with blanks."""
_HALVES = {"AM": "p", "PM": "p"}
_ROMAN = "['I', 'II', 'III', 'IV', 'V', 'VI', 'VII', 'VIII', 'IX', 'X', 'XI', 'XII'][month({m})]"
_ZONE = "CASE WHEN typeof({x}) IN ('DATE', 'TIMESTAMP WITH TIME ZONE') THEN 'UTC' ELSE '' END"
_CONSTANT = {"OF": "+00", "TZH": "+00", "TZM": "00"}
_ABSENT = ("AD", "BC", "A.D.", "B.C.", "FX", "SP", "FM", "TM")
_TEXTS = ("A.M.", "P.M.", "RM", "TZ")
_CASED = [*_NUMBERS, *_NAMES, *_HALVES, *_TEXTS, *_ABSENT]
_KNOWN = {
    *_CASED,
    *(one.lower() for one in _CASED),
    *(one.capitalize() for one in _NAMES),
    *_CONSTANT,
}
_PATTERN = "|".join(sorted(map(re.escape, _KNOWN), key=len, reverse=True))
_PIECES = re.compile(
    rf'"(?P<quoted>(?:[^"\\]|\\.)*)(?:"|$)|(?P<fill>FM|fm|TM|tm)?(?P<pattern>{_PATTERN})'
    r'(?P<th>TH|th)?|\\(?P<escaped>")|(?P<other>.)',
    re.DOTALL,
)

_OF_NUMBERS = re.compile(r"(?i)(?:FM|S|L|MI|PL|[$<\s])*[09][09GDVSLPRMITHE.,%>\s+-]*")
_LONGEST = 64 * 1024
_STRPTIME = {**_PLAIN, **{one: code for one, (code, _) in _NAMES.items()}, **_HALVES}
for _one in ("IYYY", "IW", "DDD"):
    del _STRPTIME[_one]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A part of a format: a text, or a pattern."""

    text: str = ""
    pattern: str = ""
    short: bool = False
    """Without blanks and zeros."""
    th: str = ""


def formatted_calls(tree: exp.Expression) -> None:
    """Write each call as the engine's SQL. Raises Refused."""
    # Inner ones first: they become parts of outer ones.
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        name = node.name.lower()
        if name not in FORMATTED or (name == "to_timestamp" and len(node.expressions) == 1):
            continue
        if len(node.expressions) != 2:
            raise Refused(FEATURE, f"{name} has a value and a format: {name}(value, 'YYYY-MM-DD')")
        value, form = node.expressions
        pieces = list(_pieces(name, _literal(name, form)))
        sql = _to_char(pieces) if name == "to_char" else _parsed(name, pieces)
        made = _with(sql, value)
        if node is tree or node.parent is None:
            continue
        node.replace(made)


def _literal(name: str, form: exp.Expression) -> str:
    inner = form.unnest()
    inner = inner.this if isinstance(inner, exp.Cast) else inner
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        raise Refused(
            FEATURE, f"the format of {name} must be a text in the statement, as 'YYYY-MM-DD'"
        )
    return str(inner.this)


def _pieces(name: str, form: str) -> Iterator[_Piece]:
    if _OF_NUMBERS.fullmatch(form):
        raise Refused(FEATURE, f"{name} of numbers is not here, as with {form[:40]!r}: use printf")
    for match in _PIECES.finditer(form):
        pattern, other = match["pattern"], match["other"]
        if pattern is None:
            if match["quoted"] is not None:
                yield _Piece(text=re.sub(r"\\(.)", r"\1", match["quoted"]))
                continue
            yield _Piece(text=match["escaped"] or other)
            continue
        if pattern.upper() in _ABSENT or (match["th"] and pattern.upper() not in _NUMBERS):
            raise Refused(FEATURE, f"{name} does not have the pattern {match[0]!r} here")
        fill = match["fill"] or ""
        if fill.upper() == "TM" and pattern.upper() not in _NAMES:
            raise Refused(FEATURE, f"{name} does not have the pattern {match[0]!r} here")
        yield _Piece(pattern=pattern, short=bool(fill), th=match["th"] or "")


def _to_char(pieces: list[_Piece]) -> str:
    """The text of a moment ``{m}``, whose value is ``{x}``."""
    parts: list[str] = []
    plain = ""

    def flush() -> None:
        nonlocal plain
        if plain:
            parts.append(f"strftime({{m}}, {_quoted(plain)})")
        plain = ""

    for piece in pieces:
        if not piece.pattern:
            plain += piece.text.replace("%", "%%")
            continue
        code = _PLAIN.get(piece.pattern.upper())
        if code is not None and not piece.th and (not piece.short or code in _SHORT):
            plain += f"%-{code}" if piece.short else f"%{code}"
            continue
        if piece.pattern in _CONSTANT:
            plain += _CONSTANT[piece.pattern]
            continue
        flush()
        parts.append(_part(piece))
    flush()
    return " || ".join(parts) or "CASE WHEN {m} IS NOT NULL THEN '' END"


def _part(piece: _Piece) -> str:
    own = piece.pattern
    high = own.upper()
    if high in _NUMBERS:
        return _number(piece)
    if high in _NAMES:
        code, width = _NAMES[high]
        name = f"strftime({{m}}, '%{code}')"
        name = f"upper({name})" if own == high else f"lower({name})" if own.islower() else name
        return f"rpad({name}, {width}, ' ')" if width and not piece.short else name
    cased: Callable[[str], str] = (lambda sql: f"lower({sql})") if own.islower() else str
    if high == "TZ":
        return cased(f"({_ZONE})")
    if high == "RM":
        return cased(_ROMAN if piece.short else f"rpad({_ROMAN}, 4, ' ')")
    dots = "." in own
    before, after = ("A.M.", "P.M.") if dots else ("AM", "PM")
    return cased(f"(CASE WHEN hour({{m}}) < 12 THEN '{before}' ELSE '{after}' END)")


def _number(piece: _Piece) -> str:
    sql, width = _NUMBERS[piece.pattern.upper()]
    if piece.pattern.upper() == "Y,YYY":
        made = f"printf('%d,%03d', {sql} // 1000, {sql} % 1000)"
    elif width < 0 or not piece.short:
        made = f"printf('%0{abs(width)}d', CAST({sql} AS BIGINT))"
    else:
        made = f"CAST({sql} AS VARCHAR)"
    if not piece.th:
        return made
    ends = (
        f"(CASE WHEN ({sql}) // 10 % 10 = 1 THEN 'th' WHEN ({sql}) % 10 = 1 THEN 'st' "
        f"WHEN ({sql}) % 10 = 2 THEN 'nd' WHEN ({sql}) % 10 = 3 THEN 'rd' ELSE 'th' END)"
    )
    return f"{made} || {ends if piece.th.islower() else f'upper({ends})'}"


def _parsed(name: str, pieces: list[_Piece]) -> str:
    """The moment that a text ``{x}`` says."""
    form = ""
    for piece in pieces:
        if not piece.pattern:
            form += piece.text.replace("%", "%%")
            continue
        code = _STRPTIME.get(piece.pattern.upper())
        if code is None or piece.th:
            own = f"{piece.pattern}{piece.th}"
            raise Refused(FEATURE, f"{name} does not have the pattern {own!r} here")
        form += f"%{code}"
    made = f"strptime({{x}}, {_quoted(form)})"
    if "%y" in form:  # 69 is 2069 in PostgreSQL
        made = f"CASE WHEN year({made}) = 1969 THEN {made} + INTERVAL 100 YEAR ELSE {made} END"
    return f"CAST({made} AS {'DATE' if name == 'to_date' else 'TIMESTAMPTZ'})"


def _quoted(text: str) -> str:
    """A constant, in a text in which braces have a meaning."""
    return "'" + text.replace("'", "''").replace("{", "{{").replace("}", "}}") + "'"


def _with(sql: str, value: exp.Expression) -> exp.Expression:
    """The expression of a text for a value."""
    made = sqlglot.parse_one(sql.format(m="CAST(__value AS TIMESTAMP)", x="__value"), read="duckdb")
    places = [one for one in made.find_all(exp.Column) if one.name == "__value"]
    if len(places) * len(value.sql()) > _LONGEST:
        raise Refused(FEATURE, "calls of to_char are nested too deeply: use WITH")
    for place in places:
        place.replace(value.copy())
    return exp.Paren(this=made)
