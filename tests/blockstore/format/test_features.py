"""Versions and required features: refused with what to upgrade to."""

from __future__ import annotations

import pytest

from blockstore.errors import NewerFormat
from blockstore.format.features import FORMAT_VERSION, refuse_newer, refuse_unknown


def test_this_and_older_versions_pass() -> None:
    refuse_newer(FORMAT_VERSION, "x")
    refuse_unknown((), "x")


def test_a_higher_version_names_itself_the_object_and_the_way_out() -> None:
    with pytest.raises(
        NewerFormat, match=r"block X has format version 2.*upgrade blocklake.*version 2"
    ):
        refuse_newer(2, "block X")


def test_a_feature_without_a_release_is_still_refused() -> None:
    with pytest.raises(
        NewerFormat, match=r"'sideways'.*upgrade blocklake to a release that has it"
    ):
        refuse_unknown(["sideways"], "x")
