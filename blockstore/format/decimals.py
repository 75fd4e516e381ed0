"""Numbers as the decimals of a type, without loss.

Rule: a number is handed to Arrow with exactly the digits of its type's scale. Where Arrow itself
rescales a number of many digits, it overflows to another number.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache

import pyarrow as pa


@lru_cache(maxsize=256)
def exactly(kind: pa.DataType) -> Callable[[Decimal], Decimal]:
    """Return a function that gives a number all the digits of the type's scale.

    It raises ValueError if the type cannot hold the number.
    """
    context = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])
    step = Decimal((0, (1,), -kind.scale))

    def exact(number: Decimal) -> Decimal:
        try:
            if number.is_finite():
                return context.quantize(number, step)
        except ArithmeticError:
            pass
        raise ValueError(
            f"a number of at most {kind.precision} digits, {kind.scale} of them after the point"
        )

    return exact
