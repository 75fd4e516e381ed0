"""Labels: plain names, texts as values."""

from __future__ import annotations

import pytest

from blockstore.errors import Invalid
from blockstore.format.labels import check_labels


def test_plain_labels_pass() -> None:
    check_labels({"cluster": "eu1", "Zone-2": ""})


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"_row_id": "x"}, {"_blockstore_x": "x"}, {"a": None}, {"a": 1}]
)
def test_others_are_named(labels: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="label"):
        check_labels(labels)
