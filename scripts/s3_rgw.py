"""The smallest Ceph that serves S3: one monitor, one object store in memory, one gateway. For
scripts/s3-server.

Its programs come from the system's packages (Debian: radosgw, ceph-mon, ceph-osd); `install` brings
them where it may.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

PACKAGES = ("radosgw", "ceph-mon", "ceph-osd")
PROGRAMS = ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph", "monmaptool")
STEP_WITHIN_S = 60
POOLS = (
    ".rgw.root",
    "default.rgw.log",
    "default.rgw.control",
    "default.rgw.meta",
    "default.rgw.buckets.index",
    "default.rgw.buckets.data",
    "default.rgw.buckets.non-ec",
)

CONF = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
# Otherwise the gateway wants "secure", which needs keys, and without this line it waits forever.
ms mon client mode = crc
log file = {root}/log/$name.log
admin socket = {root}/run/$name.asok
run dir = {root}/run
crash dir = {root}/log
# Seven pools in about a second instead of a quarter of a minute.
paxos propose interval = 0.05
paxos min wait = 0.01
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
mon data = {root}/mon
osd data = {root}/osd
osd objectstore = memstore
osd memory target = 939524096
memstore device bytes = 8589934592
# Without tcp_nodelay each small answer waits 44 ms.
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw thread pool size = 64
rgw rados pool pg num min = 4
rgw run sync thread = false
rgw override bucket index max shards = 1
rgw dynamic resharding = false
rgw data = {root}
"""


class Failed(Exception):
    """A step of the start did not come through."""


def missing() -> list[str]:
    """The programs that are not on this machine."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def install() -> bool:
    """Bring the programs by apt where this user may; one loud line where not.

    Whether they are there now.
    """
    if not missing():
        return True
    by_hand = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        _say(f"SKIPPING CEPH: {', '.join(missing())} not found, and only root may run '{by_hand}'")
        return False
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        done = subprocess.run(
            ["apt-get", *command],
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            _say(f"SKIPPING CEPH: 'apt-get {' '.join(command)}' failed ({reason}); try '{by_hand}'")
            return False
    return not missing()


def launch(
    root: Path,
    ports: list[int],
    access_key: str,
    secret_key: str,
    started: list[subprocess.Popen[bytes]],
) -> None:
    """Start all three programs in ``root``, which is made anew; their ids are in ``root/pid``, and
    they themselves in ``started``, also those before a step that raises Failed."""
    shutil.rmtree(root, ignore_errors=True)
    for name in ("mon", "osd", "log", "run"):
        (root / name).mkdir(parents=True)
    port, v2, v1 = ports[:3]
    fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
    conf = root / "ceph.conf"
    conf.write_text(CONF.format(root=root, fsid=fsid, port=port, v2=v2, v1=v1))
    addresses = f"[v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]"
    _run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", addresses, str(root / "monmap"))
    with_conf = ["-c", str(conf)]
    _run("ceph-mon", *with_conf, "-i", "a", "--mkfs", "--monmap", str(root / "monmap"))
    started.append(_start(root, "mon", "ceph-mon", *with_conf, "-f", "-i", "a"))
    _until("ceph", *with_conf, "--connect-timeout", "2", "-s")
    _run("ceph", *with_conf, "osd", "new", osd)
    _run("ceph-osd", *with_conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
    started.append(_start(root, "osd", "ceph-osd", *with_conf, "-f", "-i", "0"))
    _until("ceph", *with_conf, "osd", "stat", says="1 up")
    lines = [
        line
        for pool in POOLS
        for line in (
            f"osd pool create {pool} 4 4 replicated --size 1",
            f"osd pool application enable {pool} rgw",
        )
    ]
    _run("ceph", *with_conf, text="\n".join(lines) + "\n")
    _run(
        "radosgw-admin", *with_conf, "user", "create",
        "--uid=blockstore", "--display-name=blockstore",
        f"--access-key={access_key}", f"--secret-key={secret_key}",
    )  # fmt: skip
    started.append(_start(root, "rgw", "radosgw", *with_conf, "-f", "-n", "client.rgw"))


def _start(root: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    with (root / "log" / f"{name}.out").open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with (root / "pid").open("a") as pids:
        pids.write(f"{process.pid}\n")
    return process


def _run(*command: str, text: str = "") -> str:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=STEP_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} did not end within {STEP_WITHIN_S} s") from None
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _until(*command: str, says: str = "") -> None:
    deadline = time.monotonic() + STEP_WITHIN_S
    while True:
        try:
            if says in _run(*command):
                return
        except Failed:
            pass  # not yet
        if time.monotonic() > deadline:
            raise Failed(f"{' '.join(command)}: no answer within {STEP_WITHIN_S} s")
        time.sleep(0.1)


def _say(line: str) -> None:
    sys.stderr.write(f"s3-server: {line}\n")
