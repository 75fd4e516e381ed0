"""The files under configs/ and their page say what the programs do."""

from __future__ import annotations

import pytest

from blockstore.service.config import ConfigFile
from tests.repo.configuration import ROOT, declared, stale


def test_the_shipped_files_and_the_page_are_what_the_declarations_say() -> None:
    """If this fails: run scripts/configuration and commit what it wrote."""
    assert [str(path.relative_to(ROOT)) for path in stale()] == []


@pytest.mark.parametrize("file", declared(), ids=lambda file: file.name)
def test_a_shipped_file_loads_as_the_defaults(file: ConfigFile) -> None:
    assert file.load(ROOT / "configs" / file.name, {}) == file.load(None, {})


def test_every_shipped_file_is_declared_by_a_process() -> None:
    assert {path.name for path in (ROOT / "configs").glob("*.toml")} == {
        file.name for file in declared()
    }


@pytest.mark.parametrize("file", declared(), ids=lambda file: file.name)
def test_no_section_sets_a_field_twice_and_every_key_has_a_sentence(file: ConfigFile) -> None:
    for section in (*file.sections, *file.named):
        fields = [key.field for key in section.keys]
        assert len(set(fields)) == len(fields), section.name
        assert [key.name for key in section.keys if not key.sentence.endswith(".")] == []
