"""What pyarrow raises for bytes that are not Parquet."""

from __future__ import annotations

import pyarrow as pa

UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""The last one for a column whose name in the footer is not UTF-8."""
