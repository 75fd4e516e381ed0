"""The alerts that are shipped: promtool reads them, and each fires when it should and is silent
when it should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "configs" / "prometheus").glob("*.rules.yml"))
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()

Series = dict[str, str]
CASES: dict[str, tuple[Series, Series, str]] = {
    # alert: the series of a day of which it tells, those of one of which it does not, and when it
    # is looked at
    "CompactorDown": (
        {'up{job="blockstore-compactor"}': "0x60"},
        {'up{job="blockstore-compactor"}': "1x60"},
        "30m",
    ),
    "CompactorNotReady": (
        {"blockstore_compactor_ready": "0x60"},
        {"blockstore_compactor_ready": "0x20 1x40"},
        "45m",
    ),
    "CompactorTableDegraded": (
        {'blockstore_compactor_table_health{health="degraded"}': "1x60"},
        {'blockstore_compactor_table_health{health="failing"}': "1x60"},
        "10m",
    ),
    "CompactorTableGone": (
        {"blockstore_compactor_tables_gone_total": "0x20 2x60"},
        {"blockstore_compactor_tables_gone_total": "2x80"},
        "30m",
    ),
    "CompactorLoopFails": (
        {"blockstore_compactor_consecutive_failures": "5x60"},
        {"blockstore_compactor_consecutive_failures": "4x60"},
        "30m",
    ),
    "CompactorStale": (
        {"blockstore_compactor_staleness_seconds": "22000x60"},
        {"blockstore_compactor_staleness_seconds": "21000x60"},
        "30m",
    ),
    "CompactorBlocksQuarantined": (
        {"blockstore_compactor_quarantined_blocks": "3x60"},
        {"blockstore_compactor_quarantined_blocks": "0x60"},
        "30m",
    ),
    "CompactorFallsBehind": (
        {"blockstore_compactor_backlog_bytes": "1000+10x800"},
        {"blockstore_compactor_backlog_bytes": "1000+1x800"},
        "12h",
    ),
    "CompactorMergeStandsStill": (
        {"blockstore_compactor_merge_idle_seconds": "0+60x120"},
        {"blockstore_compactor_merge_idle_seconds": "0x120"},
        "100m",
    ),
    "CompactorRemovesUnusuallyMuch": (
        {"blockstore_compactor_removed_bytes_total": "0+1x2880 2880+100x120"},
        {"blockstore_compactor_removed_bytes_total": "0+1x3000"},
        "2940m",
    ),
    "CompactorRequestsCostMuch": (
        {"blockstore_bucket_month_cost_estimate": "150x180"},
        {"blockstore_bucket_month_cost_estimate": "50x180"},
        "2h",
    ),
    "GatewayDown": (
        {'up{job="blockstore-reader"}': "0x60"},
        {'up{job="blockstore-reader"}': "0x3 1x60"},
        "30m",
    ),
    "GatewayNotReady": ({"blockstore_ready": "0x60"}, {"blockstore_ready": "1x60"}, "30m"),
    "GatewayTokensStale": (
        {"blockstore_tokens_current": "0x60"},
        {"blockstore_tokens_current": "1x60"},
        "30m",
    ),
    "GatewayNotAudited": (
        {"blockstore_audit_written": "0x60"},
        {"blockstore_audit_written": "1x60"},
        "30m",
    ),
    "GatewayTableStale": (
        {'blockstore_tables{state="stale"}': "1x60", 'blockstore_tables{state="ready"}': "9x60"},
        {'blockstore_tables{state="stale"}': "0x60", 'blockstore_tables{state="ready"}': "9x60"},
        "30m",
    ),
    "GatewayTableDegraded": (
        {'blockstore_tables{state="degraded"}': "2x60"},
        {'blockstore_tables{state="degraded"}': "0x60"},
        "30m",
    ),
    "GatewayErrors": (
        {
            'blockstore_http_requests_total{status="5xx"}': "0+2x60",
            'blockstore_http_requests_total{status="2xx"}': "0+98x60",
        },
        {
            'blockstore_http_requests_total{status="5xx"}': "0+1x60",
            'blockstore_http_requests_total{status="2xx"}': "0+999x60",
        },
        "40m",
    ),
    "GatewaySlow": (
        {
            'blockstore_http_request_seconds_bucket{le="10.0"}': "0+90x60",
            'blockstore_http_request_seconds_bucket{le="30.0"}': "0+100x60",
            'blockstore_http_request_seconds_bucket{le="+Inf"}': "0+100x60",
        },
        {
            'blockstore_http_request_seconds_bucket{le="10.0"}': "0+100x60",
            'blockstore_http_request_seconds_bucket{le="30.0"}': "0+100x60",
            'blockstore_http_request_seconds_bucket{le="+Inf"}': "0+100x60",
        },
        "40m",
    ),
    "GatewayQueriesQueue": (
        {"blockstore_queries_waiting": "1x60"},
        {"blockstore_queries_waiting": "5 5 0 5 5 0 5 5 0x50"},
        "30m",
    ),
    "GatewayConnectionsRefused": (
        {'blockstore_connections_refused_total{door="postgres"}': "0x20 0+1x40"},
        {'blockstore_connections_refused_total{door="postgres"}': "7x60"},
        "40m",
    ),
    "GatewayCacheTooSmall": (
        {
            "blockstore_cache_evicted_total": "0+1x300",
            'blockstore_cache_bytes_total{what="fetched"}': "0+60x300",
            'blockstore_cache_bytes_total{what="asked"}': "0+100x300",
        },
        {
            "blockstore_cache_evicted_total": "0+1x300",
            'blockstore_cache_bytes_total{what="fetched"}': "0+10x300",
            'blockstore_cache_bytes_total{what="asked"}': "0+100x300",
        },
        "4h",
    ),
    "GatewayJobsTakenOver": (
        {'blockstore_job_events_total{event="taken_over",kind="upload"}': "0x30 1x30"},
        {'blockstore_job_events_total{event="claimed",kind="upload"}': "0+1x60"},
        "40m",
    ),
    "GatewayPeerLeftOut": (
        {'blockstore_peers{state="left_out"}': "1x60"},
        {'blockstore_peers{state="left_out"}': "0x20 1x10 0x30"},
        "40m",
    ),
}


def rules() -> list[dict[str, object]]:
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    return [
        rule for document in documents for group in document["groups"] for rule in group["rules"]
    ]


def promtool(*words: str | Path) -> str:
    """What promtool says; skips, loudly, where it is missing."""
    found = shutil.which(
        "promtool", path=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        pytest.skip(
            "no promtool: 'scripts/setup --rules' fetches it, as does 'sudo apt-get install "
            "prometheus'"
        )
    done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_alert_has_a_case_here_and_a_row_in_the_manual() -> None:
    names = [str(rule["alert"]) for rule in rules()]
    assert sorted(names) == sorted(CASES)
    assert [name for name in names if f"| `{name}` |" not in OPERATIONS] == []


def test_every_alert_says_one_sentence_and_how_grave_it_is() -> None:
    for rule in rules():
        name = str(rule["alert"])
        assert rule["annotations"]["summary"].endswith("."), name  # type: ignore[index]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name  # type: ignore[index]
        assert rule["for"], name


def test_promtool_accepts_the_rules() -> None:
    said = promtool("check", "rules", *RULES)
    assert sum(map(int, re.findall(r"(\d+) rules found", said))) == len(CASES)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    """By promtool's own evaluation of the rules over synthetic series, a sample a minute, a look
    every five."""
    tests = [
        {
            "name": f"{name}: {'silent' if silent else 'fires'}",
            "interval": "1m",
            "input_series": [
                {"series": of, "values": values} for of, values in (calm if silent else bad).items()
            ],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                    "eval_time": at,
                    "exp_samples": [] if silent else [{"labels": "{}", "value": 1}],
                }
            ],
        }
        for name, (bad, calm, at) in CASES.items()
        for silent in (False, True)
    ]
    file = tmp_path / "alerts.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(path) for path in RULES],
                "evaluation_interval": "5m",
                "tests": tests,
            }
        )
    )
    assert "SUCCESS" in promtool("test", "rules", file)
