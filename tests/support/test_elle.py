"""The checker of histories finds what snapshot isolation forbids, and nothing that it allows."""

from __future__ import annotations

import pytest

from tests.support.elle import FAILED, UNKNOWN, Lists, Transaction, problems

T = Transaction


def reads(name: str, **lists: tuple[int, ...]) -> Transaction:
    return T(name=name, reads={int(key[1:]): value for key, value in lists.items()})


FORBIDDEN: dict[str, tuple[list[Transaction], Lists, str]] = {
    "a lost update": (
        [
            T(name="a", reads={1: ()}, appends={1: 1}),
            T(name="b", reads={1: ()}, appends={1: 2}),
        ],
        {1: (2,)},
        "lost update: 1 of a",
    ),
    "a lost update that both lists show": (
        [
            T(name="a", reads={1: ()}, appends={1: 1}),
            T(name="b", reads={1: ()}, appends={1: 2}),
        ],
        {1: (1, 2)},
        "a forbidden cycle",
    ),
    "a value of a failed transaction": (
        [T(name="a", appends={1: 1}, outcome=FAILED)],
        {1: (1,)},
        "G1a",
    ),
    "a value from nowhere": ([], {1: (7,)}, "no transaction appended"),
    "a value twice": ([T(name="a", appends={1: 1})], {1: (1, 1)}, "a value twice"),
    "lists that contradict": (
        [T(name="a", appends={1: 1}), T(name="b", appends={1: 2}), reads("c", k1=(2,))],
        {1: (1, 2)},
        "c read (2,)",
    ),
    "circular information (G1c)": (
        [
            T(name="a", reads={2: (2,)}, appends={1: 1}),
            T(name="b", reads={1: (1,)}, appends={2: 2}),
        ],
        {1: (1,), 2: (2,)},
        "a forbidden cycle",
    ),
    "half of a transaction read (G-single)": (
        [T(name="a", appends={1: 1, 2: 2}), reads("b", k1=(1,), k2=())],
        {1: (1,), 2: (2,)},
        "a forbidden cycle",
    ),
    "two reads that see two writers in two orders": (
        [
            T(name="a", appends={1: 1}),
            T(name="b", appends={2: 2}),
            reads("c", k1=(1,), k2=()),
            reads("d", k1=(), k2=(2,)),
        ],
        {1: (1,), 2: (2,)},
        "a forbidden cycle",
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_it_is_found(name: str) -> None:
    history, end, what = FORBIDDEN[name]
    found = problems(history, end)
    assert found
    assert what in found[0]


def test_what_is_allowed_is_not_found() -> None:
    skew = [
        T(name="a", reads={1: (), 2: ()}, appends={1: 1}),
        T(name="b", reads={1: (), 2: ()}, appends={2: 2}),
    ]
    assert problems(skew, {1: (1,), 2: (2,)}) == []
    (found,) = problems(skew, {1: (1,), 2: (2,)}, serializable=True)
    assert found == "a forbidden cycle: a -> b -> a"
    died = [T(name="a", appends={1: 1}, outcome=UNKNOWN), reads("b", k1=(1,))]
    assert problems(died, {1: (1,)}) == []
    assert problems([T(name="a", appends={1: 1}, outcome=UNKNOWN)], {1: ()}) == []
    failed = [T(name="a", reads={1: (9,)}, appends={1: 1}, outcome=FAILED)]
    assert problems(failed, {1: ()}) == []
