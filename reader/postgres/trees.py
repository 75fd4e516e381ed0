"""What a tree of sqlglot says: the arguments of a function, the name of a type, a condition."""

from __future__ import annotations

from sqlglot import exp


def is_domain(condition: exp.Expression) -> bool:
    """Whether a condition is ``typtype = 'd'``."""
    left, right = condition.args.get("this"), condition.args.get("expression")
    return (
        isinstance(condition, exp.EQ)
        and isinstance(left, exp.Column)
        and left.name.lower() == "typtype"
        and isinstance(right, exp.Literal)
        and right.this == "d"
    )


def arguments_of(node: exp.Func) -> list[exp.Expression]:
    """The arguments of a function, in their order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found = [node.args.get(key) for key in node.arg_types]
    flat: list[exp.Expression] = []
    for one in found:
        flat += one if isinstance(one, list) else [one] if isinstance(one, exp.Expression) else []
    return flat


def type_name(kind: exp.DataType | exp.Expression) -> str:
    """The name of a type, in capitals, without a schema."""
    return kind.sql(dialect="postgres").rpartition(".")[2].strip('"').partition("(")[0].upper()
