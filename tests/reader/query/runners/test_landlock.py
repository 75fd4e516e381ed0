"""The kernel's lock, each part seen from inside a process that took it: what is open stays so,
everything else is shut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from blockstore.reader.query.runners import landlock
from blockstore.reader.query.runners.landlock import confine, identity, knows_enough

needs_the_lock = pytest.mark.skipif(
    not knows_enough(), reason="this kernel has no Landlock of version 4 or later"
)


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for name in ("open/deep", "spill", "shut", "late"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("open/a", "open/deep/b", "shut/c", "alone", "late/d"):
        (tmp_path / name).write_text("text")
    (tmp_path / "open/link").symlink_to(tmp_path / "shut/c")
    return tmp_path


def inside(places: Path, script: str, *, write: bool = True) -> str:
    """What a locked process prints: it reads in ``open`` and ``alone``, writes in ``spill``."""
    written = "[f'{places}/spill']" if write else "[]"
    head = f"""
    import errno, os, socket, subprocess, threading
    from blockstore.reader.query.runners.landlock import confine
    places = {str(places)!r}
    confine(read=[f'{{places}}/open', f'{{places}}/alone', f'{{places}}/none',
      f'{{places}}/alone/none'], write={written})
    def refused(act):
        try:
            act()
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EXDEV, errno.EPERM)
        return False
    """
    code = textwrap.dedent(head) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_the_lock
def test_files_beneath_what_may_be_read_are_read_and_not_changed(places: Path) -> None:
    script = """
    print(open(f'{places}/open/a').read(), open(f'{places}/open/deep/b').read(),
      open(f'{places}/alone').read())
    print(sorted(os.listdir(f'{places}/open')))
    acts = {
        'write': lambda: open(f'{places}/open/a', 'w'),
        'append': lambda: open(f'{places}/open/a', 'a'),
        'make': lambda: open(f'{places}/open/new', 'x'),
        'truncate': lambda: os.truncate(f'{places}/open/a', 0),
        'remove': lambda: os.remove(f'{places}/open/a'),
        'folder': lambda: os.mkdir(f'{places}/open/newer'),
        'rename': lambda: os.rename(f'{places}/open/a', f'{places}/open/b'),
        'move': lambda: os.rename(f'{places}/open/a', f'{places}/spill/a'),
        'link': lambda: os.link(f'{places}/open/a', f'{places}/spill/a'),
        'symlink': lambda: os.symlink(f'{places}/shut/c', f'{places}/open/s'),
        'pipe': lambda: os.mkfifo(f'{places}/open/p'),
    }
    print([name for name, act in acts.items() if not refused(act)])
    """
    assert inside(places, script).splitlines() == ["text text text", "['a', 'deep', 'link']", "[]"]
    assert (places / "open/a").read_text() == "text"


@needs_the_lock
def test_everything_else_is_shut(places: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"""
        acts = {{
            'read': lambda: open(f'{{places}}/shut/c'),
            'list': lambda: os.listdir(f'{{places}}/shut'),
            'by a link': lambda: open(f'{{places}}/open/link'),
            'by two dots': lambda: open(f'{{places}}/open/../shut/c'),
            'write': lambda: open(f'{{places}}/shut/c', 'w'),
            'the system': lambda: open('/etc/passwd'),
            'a process': lambda: open('/proc/1/environ'),
            'a program': lambda: subprocess.run(['/bin/true']),
            'connect': lambda: socket.create_connection(('127.0.0.1', {port}), timeout=5),
            'listen': lambda: socket.socket().bind(('127.0.0.1', 0)),
        }}
        print([name for name, act in acts.items() if not refused(act)])
        """
        assert inside(places, script) == "[]"


@needs_the_lock
def test_the_folder_for_spills_is_written_and_emptied(places: Path) -> None:
    script = """
    os.mkdir(f'{places}/spill/d')
    with open(f'{places}/spill/d/x', 'w') as file:
        file.write('spilled')
    os.truncate(f'{places}/spill/d/x', 3)
    print(open(f'{places}/spill/d/x').read())
    os.remove(f'{places}/spill/d/x')
    os.rmdir(f'{places}/spill/d')
    print(os.listdir(f'{places}/spill'))
    """
    assert inside(places, script).splitlines() == ["spi", "[]"]
    assert (
        inside(places, "print(refused(lambda: open(f'{places}/spill/x', 'w')))", write=False)
        == "True"
    )


@needs_the_lock
def test_threads_and_processes_that_come_later_are_locked_too(places: Path) -> None:
    script = """
    found = []
    act = lambda: open(f'{places}/shut/c')
    thread = threading.Thread(target=lambda: found.append(refused(act)))
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        os._exit(0 if refused(act) else 1)
    print(found, os.waitpid(child, 0)[1])
    """
    assert inside(places, script) == "[True] 0"


@needs_the_lock
def test_nothing_lifts_it(places: Path) -> None:
    script = """
    confine(read=['/'], write=['/'])
    print(refused(lambda: open(f'{places}/shut/c')), open(f'{places}/open/a').read())
    """
    assert inside(places, script) == "True text"


@needs_the_lock
def test_a_folder_created_again_is_another_one(places: Path) -> None:
    before = identity(str(places / "open"))
    script = """
    import sys
    print('locked', flush=True)
    sys.stdin.readline()
    print(refused(lambda: open(f'{places}/open/a')))
    """
    code = f"""
import errno, os
from blockstore.reader.query.runners.landlock import confine
places = {str(places)!r}
confine(read=[f'{{places}}/open'], write=[])
def refused(act):
    try:
        act()
    except PermissionError:
        return True
    return False
{textwrap.dedent(script)}
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        (places / "open").rename(places / "gone")
        (places / "open").mkdir()
        (places / "open/a").write_text("text")
        said, _ = process.communicate("go\n", timeout=60)
    assert said.strip() == "True"
    assert identity(str(places / "open")) not in (before, None)
    assert identity(str(places / "gone")) == before
    assert identity(str(places / "never")) is None


@pytest.mark.parametrize("answer", [-1, 0, 3])
def test_a_kernel_that_knows_too_little_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    def call(*_: object) -> int:
        if answer < 0:
            raise OSError(38, "landlock: Function not implemented")
        return answer

    monkeypatch.setattr(landlock, "_call", call)
    landlock.knows_enough.cache_clear()
    assert not knows_enough()
    landlock.knows_enough.cache_clear()


def test_where_it_cannot_be_taken_that_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules"
    rules.touch()

    def call(number: int, *_: object) -> int:
        if number == 446:
            raise OSError(1, "landlock: Operation not permitted")
        return os.open(rules, os.O_RDONLY) if number == 444 else 0

    def is_open() -> bool:
        return any(one.exists() and one.samefile(rules) for one in Path("/proc/self/fd").iterdir())

    monkeypatch.setattr(landlock, "_call", call)
    monkeypatch.setattr(
        landlock, "_libc", lambda: type("C", (), {"prctl": staticmethod(lambda *_: 0)})
    )
    with rules.open():
        assert is_open()
    with pytest.raises(OSError, match="not permitted"):
        confine(read=["/"], write=[])
    assert not is_open()
