from __future__ import annotations

import pytest

from blockstore.errors import Invalid
from blockstore.format.texts import check_text


def test_text_within_its_limit_is_taken() -> None:
    check_text("the name", "ünï ✓", limit=5)


@pytest.mark.parametrize("text", [None, 3, b"x", "123456", "\ud800"])
def test_what_cannot_be_written_and_read_again_is_refused_by_name(text: object) -> None:
    with pytest.raises(Invalid, match="the name"):
        check_text("the name", text, limit=5)
