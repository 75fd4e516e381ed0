"""SQL that writes: INSERT, UPDATE, DELETE, MERGE, and the definitions of tables."""

from __future__ import annotations
