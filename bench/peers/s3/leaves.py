"""Ours with an index in leaves and blocks that have no files, on an S3 server."""

from __future__ import annotations

from pathlib import Path

import bench.peers.s3.ours  # noqa: F401 - loads what ours loads at its first use of S3
from bench.peers.leaves import Leaves
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "LeavesOnS3"]


class LeavesOnS3(Leaves):
    name = "ours-leaves-s3"
    settings = "an index in leaves; Python scans"

    def _url(self, directory: Path) -> str:
        return place.url(directory)


CONTESTANTS = (LeavesOnS3(),)
