"""A text of a client, split into statements, and what each is.

Rules:
- Only its first words say what a statement is; what it means is decided by the engine's parser.
- A statement that only concerns the session (SET, SHOW, BEGIN, …) is carried out by the session,
  and never reaches the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from blockstore.reader.statements.tokens import Token, tokens_of


class Kind(StrEnum):
    """What a statement is for a session."""

    QUERY = "SELECT"
    CHANGE = "CHANGE"
    DEFINE = "DEFINE"
    EXPLAIN = "EXPLAIN"
    SET = "SET"
    SHOW = "SHOW"
    RESET = "RESET"
    DISCARD = "DISCARD"
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SAVEPOINT = "SAVEPOINT"
    COPY = "COPY"
    DECLARE = "DECLARE"
    FETCH = "FETCH"
    CLOSE = "CLOSE"
    DEALLOCATE = "DEALLOCATE"
    NOTHING = "NOTHING"
    EMPTY = "EMPTY"
    OTHER = "OTHER"


_KINDS = {
    **dict.fromkeys(
        ("SELECT", "WITH", "VALUES", "FROM", "DESCRIBE", "SUMMARIZE", "TABLE", "("),
        Kind.QUERY,
    ),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"), Kind.CHANGE),
    **dict.fromkeys(("CREATE", "ALTER", "DROP", "UNDROP", "COMMENT", "CALL"), Kind.DEFINE),
    **dict.fromkeys(("START", "BEGIN"), Kind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), Kind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), Kind.ROLLBACK),
    **dict.fromkeys(("SAVEPOINT", "RELEASE"), Kind.SAVEPOINT),
    **dict.fromkeys(("FETCH", "MOVE"), Kind.FETCH),
    **dict.fromkeys(("UNLISTEN", "ANALYZE", "VACUUM"), Kind.NOTHING),
    "EXPLAIN": Kind.EXPLAIN,
    "SET": Kind.SET,
    "SHOW": Kind.SHOW,
    "RESET": Kind.RESET,
    "DISCARD": Kind.DISCARD,
    "COPY": Kind.COPY,
    "DECLARE": Kind.DECLARE,
    "CLOSE": Kind.CLOSE,
    "DEALLOCATE": Kind.DEALLOCATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One statement of a text."""

    kind: Kind
    sql: str
    tokens: tuple[Token, ...]
    """Its tokens, with their places in ``sql``."""

    @property
    def words(self) -> list[str]:
        """Its tokens as keywords: in capitals where they are not quoted."""
        return [one.word or one.text for one in self.tokens]

    @property
    def tag(self) -> str:
        """What a client is sent at its end, where nothing is counted."""
        words = self.words
        first = words[0] if words else ""
        two = self.kind is Kind.DISCARD or (self.kind is Kind.DEFINE and first != "COMMENT")
        if two:
            return " ".join(words[:2])
        return {"START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK"}.get(first, first)


def split(text: str) -> list[Part]:
    """The statements of a text; one that is empty if there is none. Raises BadSql."""
    pieces: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.text == ";" and not token.is_text:
            pieces.append([])
        else:
            pieces[-1].append(token)
    found = [_part(text, piece) for piece in pieces if piece]
    return found or [Part(kind=Kind.EMPTY, sql="", tokens=())]


def _part(text: str, tokens: Sequence[Token]) -> Part:
    start, end = tokens[0].start, tokens[-1].end
    moved = tuple(
        Token(one.text, one.start - start, one.end - start, one.kind, one.depth) for one in tokens
    )
    return Part(kind=_kind(moved), sql=text[start:end], tokens=moved)


def _kind(tokens: Sequence[Token]) -> Kind:
    kind = _KINDS.get(tokens[0].word, Kind.OTHER)
    if kind is Kind.ROLLBACK and any(one.word == "TO" for one in tokens[1:4]):
        return Kind.SAVEPOINT
    return kind
