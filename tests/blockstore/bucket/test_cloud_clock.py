"""The time of a store, requested ahead of need. What the time is: ``test_cloud.py``."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from blockstore.bucket.cloud_clock import EndpointClock
from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import ManualClock
from blockstore.errors import Unavailable
from tests.support.scripted_s3 import Answer, Scripted

DATE = {"Date": "Tue, 14 Nov 2023 23:13:20 GMT"}
HOUR_MS = 3_600_000
SPARE = Spare(4)


def clock_of(
    server: Scripted, *answers: Answer, spare: Spare | None = SPARE
) -> tuple[EndpointClock, ManualClock]:
    server.script(*answers)
    ours = ManualClock()
    return EndpointClock(lambda: server.endpoint, "s3://bucket", ours, spare), ours


def test_what_was_requested_soon_is_not_requested_again(scripted_server: Scripted) -> None:
    clock, ours = clock_of(scripted_server, Answer(status=403, headers=DATE))
    for _ in range(5):
        clock.soon()
    assert clock.now_ms() == ours.now_ms() + HOUR_MS
    clock.soon()
    assert len(scripted_server.requests) == 1
    ours.advance(61)
    clock.soon()
    assert clock.now_ms() == ours.now_ms() + HOUR_MS - 61_000
    assert len(scripted_server.requests) == 2


def test_a_request_ahead_that_fails_is_sent_again_when_the_time_is_needed(
    scripted_server: Scripted,
) -> None:
    clock, ours = clock_of(scripted_server, Answer(reset=True), Answer(headers=DATE))
    clock.soon()
    assert clock.now_ms() == ours.now_ms() + HOUR_MS
    assert len(scripted_server.requests) == 2
    clock, _ = clock_of(scripted_server, Answer(reset=True))
    clock.soon()
    with pytest.raises(Unavailable):
        clock.now_ms()


def test_a_response_that_is_no_http_is_unavailable_and_costs_no_spare_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        spare = Spare(1)
        place = f"http://127.0.0.1:{server.getsockname()[1]}"
        clock = EndpointClock(lambda: place, "s3://bucket", ManualClock(), spare)

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.recv(4096)
                connection.sendall(b"no status\r\n\r\n")
                connection.close()

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        clock.soon()
        with pytest.raises(Unavailable, match="did not return its time"):
            clock.now_ms()
        answering.join(60)
    taken = threading.Event()
    while not spare.run(taken.set):
        time.sleep(0.001)
    assert taken.wait(60)


def test_without_spare_threads_nothing_is_requested_ahead(scripted_server: Scripted) -> None:
    clock, _ = clock_of(scripted_server, Answer(headers=DATE), spare=None)
    clock.soon()
    assert scripted_server.requests == []
    clock.now_ms()
    assert len(scripted_server.requests) == 1


def test_a_forked_child_waits_for_no_thread_of_its_parent(scripted_server: Scripted) -> None:
    clock, _ = clock_of(scripted_server, Answer(silent=True), Answer(headers=DATE))
    clock.soon()
    while not scripted_server.requests:
        pass  # the silent answer is the request ahead
    child = os.fork()
    if child == 0:
        clock.now_ms()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    scripted_server.script(Answer())
