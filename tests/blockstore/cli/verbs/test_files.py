"""put-file and get-file: a file goes into a cell from the command line, and comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import blockstore as bs
from tests.blockstore.cli.conftest import Command


@pytest.fixture
def papers(blockstore: Command, lake: str) -> str:
    """A table with row ids and a column of files."""
    url = f"{lake}/papers"
    blockstore("create", url, "--schema", "name:string, doc:file", "--row-ids")
    return url


def test_a_file_goes_into_a_cell_and_comes_back(
    blockstore: Command, papers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "report 1.pdf"
    source.write_bytes(b"%PDF")
    handle = blockstore("put-file", papers, str(source)).out.strip()
    assert json.loads(handle)["content_type"] == "application/pdf"
    rows = tmp_path / "rows.csv"
    rows.write_text("name,doc\n" + "a," + '"' + handle.replace('"', '""') + '"' + "\nb,\n")
    blockstore("write", papers, str(rows))
    said = blockstore("get-file", papers, "0", "doc").out
    assert "report_1.pdf: 4 bytes, application/pdf" in said
    assert (tmp_path / "report_1.pdf").read_bytes() == b"%PDF"
    assert "exists here already" in blockstore("get-file", papers, "0", "doc", code=1).err
    blockstore("get-file", papers, "0", "doc", "--to", str(tmp_path / "x"), "--version", "2")
    assert (tmp_path / "x").read_bytes() == b"%PDF"
    assert "names no file" in blockstore("get-file", papers, "1", "doc", code=1).err
    blockstore("update", papers, "--set", f"doc={handle}", "--where", "name = 'b'")
    assert bs.open(papers).open_file(1, "doc").read() == b"%PDF"


def test_a_line_of_a_file_with_a_wrong_handle_is_named(
    blockstore: Command, papers: str, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("name,doc\na,\nb,nothing\n")
    refused = blockstore("write", papers, str(rows), code=1).err
    assert "line 3" in refused
    assert "the handle of a file, as a JSON object" in refused
    missing = '{""id"":""01KA5C3M2Q0V8E6R9T1W4Y7ZBN"",""name"":""f"",""bytes"":1,""sha256"":""%s""}'
    rows.write_text('name,doc\na,\nb,"' + missing % ("0" * 64) + '"\n')
    refused = blockstore("write", papers, str(rows), code=1).err
    assert "line 3" in refused
    assert "was never uploaded there" in refused


def test_a_path_that_cannot_be_read_is_one_sentence(blockstore: Command, papers: str) -> None:
    assert "cannot be read" in blockstore("put-file", papers, "/does/not/exist", code=1).err
