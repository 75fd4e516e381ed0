"""Merging: many blocks into one, in bounded memory.

The chunks of a merge are sorted runs. A bounded k-way merge reads a buffer of each run, cuts all
buffers at the least last key, sorts the cut pieces as one window, and writes it. Memory depends on
the settings, not on the rows: runs that would be too many to open together are first merged on the
work disk.

- ``engine``: the interface: ``MergeTask`` in, ``Merged`` out, ``MergeEngine`` and ``BatchEngine``.
- ``local.LocalEngine``: this process. ``engines.engine_named``: any engine, by name.
- ``run.Run``, ``chunkrun.ChunkRun``: sorted rows, read piece by piece. ``inputs``, ``stage``,
  ``sources``: where they come from. ``batches``, ``weight``, ``codes``, ``shared``: how they are
  read within bounds.
- ``order``, ``ranges``: how keys compare.
- ``pump``, ``kway``, ``chain``, ``window``: the merge itself. ``spill``, ``workdir``,
  ``preflight``: the work disk.
- ``pieces.Pieces``: one merge cut into ranges, for engines with many workers.
- ``result``: the block that the chunks become.

Example::

    merged = LocalEngine().merge(bucket, world, task, MergeOptions(work_dir=Path("/tmp")))
    block = merged_block(task, merged, visible_by=VisibleBy.INDEX)
"""

from blockstore.compactor.merge.engine import (
    DamagedInput,
    Merged,
    MergeEngine,
    MergeInput,
    MergeOptions,
    MergeTask,
)

__all__ = ["DamagedInput", "MergeEngine", "MergeInput", "MergeOptions", "MergeTask", "Merged"]
