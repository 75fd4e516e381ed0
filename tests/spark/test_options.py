"""Options: wrong names and values are errors before anything runs."""

from __future__ import annotations

import re

import pytest

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.spark.idioms import INSTEAD
from blockstore.spark.options import checked_url, known, names, names_text
from blockstore.spark.reading.options import read_options
from blockstore.spark.streaming.options import source_options
from blockstore.spark.writing.options import DEFAULT_BUFFER_BYTES, write_options
from tests.repo.fenced import ROOT

URL = {"path": "lake/flights"}


def test_a_plain_write_has_defaults_and_no_job() -> None:
    options = write_options(URL)
    assert (options.url, options.job, options.sort_by, options.labels) == (
        "lake/flights",
        None,
        (),
        {},
    )
    assert options.buffer_bytes == DEFAULT_BUFFER_BYTES


def test_every_write_option_is_read_whatever_its_case() -> None:
    options = write_options(
        {
            **URL,
            "App": "nightly",
            "BATCH": "17",
            "time_column": "t",
            "sort_by": "a, b",
            "labels": "cluster=eu1, zone = a",
            "buffer_size": "64MiB",
            "chunk_size": "500 MB",
        }
    )
    assert options.job == Job(app="nightly", batch=17)
    assert (options.time_column, options.sort_by) == ("t", ("a", "b"))
    assert options.labels == {"cluster": "eu1", "zone": "a"}
    assert (options.buffer_bytes, options.chunk_bytes) == (64 * 2**20, 500 * 10**6)


def test_the_options_of_an_overwrite_are_read() -> None:
    options = write_options(
        {
            **URL,
            "where": "a > 1",
            "isolation": "serializable",
            "app": "x",
            "batch": "1",
            "any_order": "TRUE",
        },
        overwrite=True,
    )
    assert (options.overwrite, options.where, options.isolation) == (True, "a > 1", "serializable")
    assert options.any_order
    with pytest.raises(Invalid, match="exclude each other"):
        write_options({**URL, "if_exists": "error"}, overwrite=True)


def test_a_misspelt_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(Invalid, match=r"no write option 'bacth'.*did you mean 'batch'"):
        write_options({**URL, "app": "x", "bacth": "1"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no table URL is given"),
        ({**URL, "app": "nightly"}, "a job needs both options"),
        ({**URL, "batch": "1"}, "a job needs both options"),
        ({**URL, "app": "nightly", "batch": "-1"}, "batch='-1': expected a whole number"),
        ({**URL, "app": "nightly", "batch": "٣"}, "expected a whole number"),
        ({**URL, "sort_by": "a,,b"}, "sort_by='a,,b'"),
        ({**URL, "sort_by": "a,a"}, "distinct column names"),
        ({**URL, "labels": "eu1"}, "expected key=value"),
        ({**URL, "labels": "cluster=eu1,"}, "expected key=value"),
        ({**URL, "labels": "cluster=eu1, cluster =us1"}, "label 'cluster' is given twice"),
        ({**URL, "labels": "cluster=eu1,cluster=eu1"}, "label 'cluster' is given twice"),
        ({**URL, "buffer_size": "much"}, "expected a size"),
        (
            {**URL, "chunk_size": "4GiB"},
            r"chunk_size .* 4,294,967,296 bytes, expected 1 to 536,870,912 \(512 MiB\)",
        ),
        ({**URL, "buffer_size": "0MiB"}, "expected a size"),
        ({"path": "memory://lake"}, "memory of one process"),
        ({**URL, "cluster": "true"}, r"repartitionByRange.*with the sort key"),
        ({**URL, "any_order": "true"}, "no job is named"),
        ({**URL, "if_exists": "replace"}, "expected one of 'append', 'error', 'ignore'"),
        ({**URL, "where": "a > 1"}, "options of an overwrite"),
        ({**URL, "isolation": "serializable"}, "options of an overwrite"),
    ],
)
def test_a_write_option_that_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        write_options(given)


def test_every_read_option_is_read() -> None:
    options = read_options(
        {
            **URL,
            "version": "40",
            "columns": "a,b",
            "where": "a > 1",
            "filters": "False",
            "partition_size": "1MiB",
        }
    )
    assert (options.version, options.columns, options.where) == (40, ("a", "b"), "a > 1")
    assert options.partition_bytes == 2**20


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", ()),
        (" a , b", ("a", "b")),
        ('["a,b", " a"]', ("a,b", " a")),
        ('["[\\"a\\"]"]', ('["a"]',)),
    ],
)
def test_columns_are_separated_by_commas_or_a_json_list(
    text: str, columns: tuple[str, ...]
) -> None:
    assert read_options({**URL, "columns": text}).columns == columns


@pytest.mark.parametrize("columns", [(), ("a",), ("a,b", " a", "b "), ('["a"]',), ('ü\\"\n',)])
def test_names_read_back_what_names_text_writes(columns: tuple[str, ...]) -> None:
    assert names(names_text(columns), "columns") == columns


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**URL, "version": "0"}, "at least 1"),
        ({**URL, "version": "4", "as_of": "2024-01-01"}, "exclude each other"),
        ({**URL, "filters": "maybe"}, "expected true or false"),
        ({**URL, "filters": "TRUE"}, r"rows would be missing; use option\('where', …\)"),
        ({**URL, "columns": '["a", "a"]'}, "distinct column names"),
        ({**URL, "columns": '["a", ""]'}, "distinct column names"),
        ({**URL, "columns": '["a", 1]'}, "begins like a JSON list; expected a list"),
        ({**URL, "columns": '["a"'}, "begins like a JSON list; expected a list"),
        ({**URL, "tga": "q3"}, "no read option .tga.*did you mean .tag"),
        ({**URL, "tag": "q3", "version": "4"}, "exclude each other"),
        ({**URL, "discovery": "list", "as_of": "2024-01-01"}, "exclude each other"),
        ({**URL, "discovery": "both"}, "expected .index. or .list."),
    ],
)
def test_a_read_option_that_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        read_options(given)


def test_a_table_in_the_memory_of_one_process_is_refused() -> None:
    with pytest.raises(Invalid, match="use a folder or an s3:// URL"):
        checked_url("memory://lake")


def test_what_other_formats_call_our_options_is_understood() -> None:
    assert write_options({**URL, "replaceWhere": "a > 1"}, overwrite=True).where == "a > 1"
    assert read_options({**URL, "versionAsOf": "7"}).version == 7
    with pytest.raises(Invalid, match="'replaceWhere' is another name for 'where'"):
        write_options({**URL, "where": "a > 2", "replaceWhere": "a > 1"}, overwrite=True)
    with pytest.raises(Invalid, match="options of an overwrite"):
        write_options({**URL, "replaceWhere": "a > 1"})


def test_an_option_that_means_something_elsewhere_is_never_said_to_be_dropped() -> None:
    with pytest.raises(Invalid, match=r"no write option 'partitionoverwritemode'.*option\('where'"):
        write_options({**URL, "partitionOverwriteMode": "dynamic"}, overwrite=True)
    with pytest.raises(Invalid, match=r"no read option 'timestampasof'.*use 'as_of'"):
        read_options({**URL, "timestampAsOf": "2024-01-01"})
    with pytest.raises(Invalid, match="before you remove it"):
        write_options({**URL, "somethingElse": "true"}, overwrite=True)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_an_option_of_another_format_is_answered_with_what_to_use(name: str) -> None:
    for parse in (write_options, read_options, source_options):
        with pytest.raises(Invalid, match=re.escape(INSTEAD[name])):
            parse({**URL, name: "1"})


def test_the_guide_lists_no_option_that_would_be_unknown() -> None:
    page = (ROOT / "docs/guides/spark.md").read_text()
    table = page.split("## Coming from Delta")[1].split("\n## ")[0]
    listed = re.findall(r'option\("(\w+)"', table)
    assert len(listed) > 8
    for name in listed:
        if name.lower() not in INSTEAD:
            assert "where" in known({name: "1"}, ("where", "version"), "write") or (
                "version" in known({name: "1"}, ("where", "version"), "read")
            )
