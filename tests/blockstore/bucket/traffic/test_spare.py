"""Threads for requests that may be left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from blockstore.bucket.traffic.spare import Spare


def test_a_call_is_carried_out_and_its_thread_used_again() -> None:
    spare, threads = Spare(1), set()
    for _ in range(3):
        done = threading.Event()

        def call(done: threading.Event = done) -> None:
            threads.add(threading.get_ident())
            done.set()

        while not spare.run(call):
            pass  # the thread is about to be idle
        assert done.wait(10)
    assert len(threads) == 1


def test_no_call_waits_for_a_thread() -> None:
    spare, hold = Spare(2), threading.Event()
    assert spare.run(hold.wait)  # type: ignore[arg-type]
    assert spare.run(hold.wait)  # type: ignore[arg-type]
    assert not spare.run(hold.wait)  # type: ignore[arg-type]
    hold.set()


def test_a_forked_child_has_threads_of_its_own() -> None:
    spare, hold = Spare(1), threading.Event()
    assert spare.run(hold.wait)  # type: ignore[arg-type]
    child = os.fork()
    if child == 0:
        done = threading.Event()
        started = spare.run(done.set)
        os._exit(0 if started and done.wait(10) else 1)
    hold.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_ends_although_a_request_was_left_behind() -> None:
    code = (
        "import threading\n"
        "from blockstore.bucket.traffic.spare import Spare\n"
        "assert Spare(1).run(threading.Event().wait)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0
