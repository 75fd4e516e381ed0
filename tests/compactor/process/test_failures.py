"""Failures of loops: what the process does about each, and how long it waits."""

from __future__ import annotations

import errno
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore import errors
from blockstore.clock import ManualClock
from blockstore.compactor.merge.workdir import NoWorkDirectory
from blockstore.compactor.process.failures import FailureKind, backoff_s, classify
from blockstore.ids import Ids


@pytest.mark.parametrize(
    ("error", "kind", "fix"),
    [
        (errors.Fenced("taken"), FailureKind.FATAL, "one compactor"),
        (errors.BoundaryLost("gone"), FailureKind.FATAL, "blockstore index rebuild lake/t"),
        (errors.Unavailable("no answer"), FailureKind.RETRY, "retried"),
        (errors.NoSpace("full"), FailureKind.RETRY, "free space"),
        (NoWorkDirectory("a file"), FailureKind.RETRY, "fix the folder"),
        (errors.Indeterminate("who knows"), FailureKind.RETRY, "retried"),
        (errors.PreconditionFailed("raced"), FailureKind.RETRY, "retried"),
        (errors.AccessDenied("no"), FailureKind.DEGRADED, "credentials"),
        (errors.NewerFormat("v2"), FailureKind.DEGRADED, "install"),
        (errors.Corrupt("bad"), FailureKind.DEGRADED, "blockstore verify lake/t --deep"),
        (errors.NotFound("gone"), FailureKind.DEGRADED, "blockstore verify lake/t"),
        (errors.Invalid("wrong"), FailureKind.DEGRADED, "change"),
        (OSError(errno.ENOSPC, "No space left"), FailureKind.RETRY, "free space"),
        (OSError(errno.EIO, "broken"), FailureKind.RETRY, "disk"),
        (MemoryError(), FailureKind.RETRY, "memory"),
        (ZeroDivisionError("a bug"), FailureKind.DEGRADED, "report it"),
    ],
)
def test_each_failure_has_its_class_and_a_fix(
    error: Exception, kind: FailureKind, fix: str
) -> None:
    found = classify(error, "lake/t")
    assert found.kind is kind
    assert fix in found.fix
    assert found.problem


def test_every_error_of_the_tree_is_classed_on_purpose() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if inspect.isclass(kind) and kind is not errors.BlockstoreError:
            assert "report it" not in classify(kind("x"), "lake/t").fix, name


@given(st.integers(1, 10_000), st.integers(0, 10))
def test_the_wait_doubles_within_its_bounds_and_is_jittered(failures: int, seed: int) -> None:
    ids = Ids.seeded(ManualClock(), seed)
    wait = backoff_s(failures, ids, first_s=5, most_s=900)
    full = min(900, 5 * 2 ** min(failures - 1, 20))
    assert full / 2 <= wait <= full


def test_two_processes_do_not_wait_alike() -> None:
    waits = {
        backoff_s(4, Ids.seeded(ManualClock(), seed), first_s=5, most_s=900) for seed in range(20)
    }
    assert len(waits) == 20
