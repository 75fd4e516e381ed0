"""The command at a terminal of so many columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

BINARY = Path(sys.executable).parent / "blockstore"


def at_terminal(columns: int, *words: str) -> str:
    """What a terminal shows of the command's output, without the titles' bold face."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")
    }
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [BINARY, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:
        pass  # the last who had the terminal open is gone
    finally:
        os.close(ours)
    assert process.wait() == 0, shown
    return re.sub(r"\x1b\[[01]m", "", shown.decode()).replace("\r\n", "\n")
