"""Extra requests are a share of the requests, and a few at once."""

from __future__ import annotations

from blockstore.bucket.traffic.budget import Budget


def spent(budget: Budget, now_s: float = 0.0) -> int:
    count = 0
    while budget.spend(now_s):
        count += 1
    return count


def test_a_budget_starts_with_its_burst_and_requests_refill_it() -> None:
    budget = Budget(share=0.1, burst=3)
    assert spent(budget) == 3
    for _ in range(25):
        budget.earn()
    assert spent(budget) == 2


def test_no_more_than_the_burst_is_saved_up() -> None:
    budget = Budget(share=0.5, burst=4, per_s=10)
    for _ in range(1000):
        budget.earn()
    assert spent(budget, 1_000) == 4


def test_time_refills_it_too() -> None:
    budget = Budget(share=0, burst=10, per_s=2)
    assert spent(budget, 100) == 10
    assert spent(budget, 101.5) == 3
    assert spent(budget, 50) == 0
