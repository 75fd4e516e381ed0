"""Two gateways on one lake; the one that runs an upload and a query job is killed with SIGKILL,
again and again.

    python -m tests.end_to_end.gateway_killing --kills 20 [--seed 1]

Each round: a gateway takes an upload (good or bad) and a download; at a random moment it is killed,
and a new one is started in its place. The other one must end both jobs. At the end the table holds
each good file's rows exactly once and nothing of the bad ones, and every download is whole.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa

import blockstore as bs
from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess

__all__ = ["Report", "run"]

ROWS = 20_000
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("upload", pa.int64()), ("n", pa.int64())])
_LONGEST_S = 120.0


@dataclass
class Report:
    """What came out."""

    kills: int = 0
    taken_over: int = 0
    states: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    """Uploads whose answer was lost with the gateway; asked for again under their key."""
    violations: list[str] = field(default_factory=list)


def run(kills: int, seed: int, folder: Path) -> Report:
    """The series; raises nothing for a violation, the report names them."""
    dice, world, report = random.Random(seed), World.real(), Report()
    url = f"{folder}/lake/t?durable=false"
    table = bs.create(url, schema=SCHEMA, time_column="time", sort_by=["n"])
    table.append(pa.table({"time": pa.array([0], SCHEMA.field(0).type), "upload": [-1], "n": [0]}))
    lake = f"{folder}/lake?durable=false"
    gateways = [GatewayProcess(lake, folder, f"gateway-{number}") for number in range(2)]
    good: list[int] = []
    try:
        for round_ in range(kills):
            victim, other = round_ % 2, gateways[1 - round_ % 2]
            bad = dice.random() < 0.25
            key = {"Idempotency-Key": f"upload-{round_}"}
            upload = _asked(gateways[victim], _file(round_, bad), key)
            download = (
                gateways[victim]
                .http.post("/v1/jobs", json={"kind": "download", "table": "t"})
                .json()["id"]
            )
            world.clock.sleep(dice.uniform(0.0, 0.6))
            gateways[victim].kill()
            gateways[victim].http.close()
            report.kills += 1
            gateways[victim] = GatewayProcess(lake, folder, f"gateway-{round_ + 2}")
            if upload is None:
                report.unknown += 1
                upload = _asked(other, _file(round_, bad), key)
            assert upload is not None, "the gateway that lives takes the upload"
            _judge(other, world, report, round_, upload, download, bad)
            if not bad:
                good.append(round_)
    finally:
        for one in gateways:
            one.__exit__()
    found = Counter(
        bs.open(url).snapshot().scan(columns=["upload"]).to_table()["upload"].to_pylist()
    )
    expected = Counter({-1: 1} | dict.fromkeys(good, ROWS))
    if found != expected:
        report.violations.append(f"the table holds {dict(found)}, expected {dict(expected)}")
    return report


def _judge(
    gateway: GatewayProcess,
    world: World,
    report: Report,
    round_: int,
    upload: str,
    download: str,
    bad: bool,
) -> None:
    told = _until_ended(gateway, world, upload)
    report.states[f"upload {told['state']}"] += 1
    report.taken_over += int(told["attempt"] > 1)
    if told["state"] != ("failed" if bad else "done"):
        report.violations.append(f"round {round_}: the upload is {told}")
    if bad and (told["error"] or {}).get("line") != ROWS + 2:
        report.violations.append(f"round {round_}: the bad line is not told: {told['error']}")
    file = _until_ended(gateway, world, download)
    report.states[f"download {file['state']}"] += 1
    report.taken_over += int(file["attempt"] > 1)
    if file["state"] != "done":
        report.violations.append(f"round {round_}: the download is {file}")
        return
    text = gateway.http.get(file["result"]["href"]).text
    rows = len(text.splitlines()) - 1
    if rows != file["result"]["rows"] or (rows - 1) % ROWS:
        report.violations.append(
            f"round {round_}: a download of {rows} rows, told {file['result']}"
        )


def _asked(gateway: GatewayProcess, data: str, key: dict[str, str]) -> str | None:
    """The upload's job; None where the answer was lost."""
    try:
        answer = gateway.http.post(
            "/v1/jobs?table=t", content=data, headers={"Content-Type": "text/csv", **key}
        )
    except httpx.TransportError:
        return None
    return str(answer.json()["id"])


def _until_ended(gateway: GatewayProcess, world: World, job: str) -> dict[str, object]:
    until_s = world.clock.monotonic_s() + _LONGEST_S
    while True:
        told: dict[str, object] = gateway.http.get(f"/v1/jobs/{job}").json()
        if told["state"] in ("done", "failed", "cancelled") or world.clock.monotonic_s() > until_s:
            return told
        world.clock.sleep(0.1)


def _file(upload: int, bad: bool) -> str:
    lines = [f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}Z,{upload},{n}" for n in range(ROWS)]
    return (
        "\n".join(["time,upload,n", *lines, *(["2026-01-01T00:00:00Z,oops,1"] if bad else [])])
        + "\n"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = run(asked.kills, asked.seed, Path(folder))
    print(
        f"{report.kills} kills, {report.taken_over} jobs taken over, {dict(report.states)}, "
        f"{report.unknown} lost answers, {len(report.violations)} violations"
    )
    for violation in report.violations:
        print(violation)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
