"""Log lines: one line each, with table, block and job, for machines and for people."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from blockstore.service.logs import LogSettings, about, set_up

logger = logging.getLogger("tests.service")


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def lines(style: str = "json", level: str = "info") -> tuple[io.StringIO, logging.Handler]:
    stream = io.StringIO()
    return stream, set_up(LogSettings(style=style, level=level), stream)


def test_a_line_is_one_json_object_with_the_fields_of_its_stretch_of_work_and_its_own() -> None:
    stream, _ = lines()
    with about(table="flights", job="a"), about(job="b"):
        logger.warning("block %s\nis damaged", "X", extra={"block": "X"})
    logger.info("later")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["table"], first["job"], first["block"]) == ("flights", "b", "X")
    assert (first["level"], first["message"]) == ("warning", "block X\nis damaged")
    assert first["time"].endswith("Z")
    assert "table" not in second


def test_an_error_carries_its_traceback_within_the_line() -> None:
    stream, _ = lines()
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("it failed")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert "ValueError: broken" in line["traceback"]


def test_on_a_terminal_a_line_is_text() -> None:
    stream, _ = lines("text")
    with about(table="flights"):
        logger.info("merged\ntwice")
    assert stream.getvalue().endswith("info    table=flights  merged twice\n")
    stream, _ = lines("auto")
    logger.info("no terminal here")
    assert json.loads(stream.getvalue())["message"] == "no terminal here"


def test_a_table_whose_name_has_two_lines_is_reported_in_one() -> None:
    stream, _ = lines("text")
    with about(table="two\nlines\x1b[2J"):
        logger.info("found")
    (line,) = stream.getvalue().splitlines()
    assert r"table='two\nlines\x1b[2J'  found" in line


def test_what_lies_below_the_level_and_what_libraries_chat_is_not_logged() -> None:
    stream, _ = lines(level="warning")
    logger.info("quiet")
    logging.getLogger("apscheduler.executors").info("running job")
    assert stream.getvalue() == ""


def test_setting_up_again_replaces_the_handler() -> None:
    old, _ = lines()
    new, _ = lines()
    logger.info("once")
    assert (old.getvalue(), len(new.getvalue().splitlines())) == ("", 1)
