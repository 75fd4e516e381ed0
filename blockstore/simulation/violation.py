"""What a run ends with when a promise was broken."""

from __future__ import annotations


class Violation(AssertionError):
    """A promise of the protocol did not hold.

    Not an error of the product's tree: no handler of it may survive this.
    """
