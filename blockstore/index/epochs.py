"""Roles that must be single: claimed by an entry, held until the next claim (protocol 3.7).

Rules:
- ``epochs[role]`` is [number, commit id]. A claim commits [number + 1, its own commit id]; it is
  held only by the process whose commit id it holds, whatever the number.
- The process that held the role before is fenced at its next commit: its changes carry ``role`` and
  ``epoch``, and the rules compare both.
- Readers and ordinary writers hold none, so nothing that they do looks like fencing.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Fenced, Invalid
from blockstore.index.change import COMPACTOR as COMPACTOR
from blockstore.index.change import ClaimEpoch
from blockstore.index.entry import Epoch
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.world import World

_LONGEST = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A role and the claim by which it is held: what a ``Change`` of the role carries as ``role``
    and ``epoch``."""

    role: str
    epoch: Epoch


def claim(log: Log, world: World, role: str) -> Held:
    """Take the role from its holder. Raises Fenced if another took it in the same moment,
    Unavailable or Indeterminate as any commit: claim again."""
    if not 1 <= len(role) <= _LONGEST or not role.isprintable():
        raise Invalid(
            f"role is {role!r}, expected 1 to {_LONGEST} printable characters such as {COMPACTOR!r}"
        )
    commit = world.ids.ulid()
    log.commit(ClaimEpoch(commit=commit, claims=role))
    state = log.state
    epoch = state.epochs[role]
    if epoch[1] != commit:
        raise Fenced(
            f"role {role!r} was claimed by commit {commit} and is already held by epoch {epoch[0]} "
            f"(commit {epoch[1]}) at version {state.version}: another process started at the same "
            "moment; let it work, or start again"
        )
    return Held(role=role, epoch=epoch)


def still_held(state: State, held: Held) -> bool:
    """Whether the state names this claim, and no later one."""
    return state.epochs.get(held.role) == held.epoch


def check_held(state: State, held: Held | None) -> None:
    """Raise Fenced unless the state names this claim; None holds no role and passes."""
    if held is None or still_held(state, held):
        return
    found = state.epochs.get(held.role)
    by = "no process" if found is None else f"epoch {found[0]} (commit {found[1]})"
    raise Fenced(
        f"role {held.role!r} is held by {by} at version {state.version}, and this process holds "
        f"epoch {held.epoch[0]} (commit {held.epoch[1]}): stop; another process has taken over"
    )
