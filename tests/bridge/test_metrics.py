from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bridge.ledger import Ledger, Record
from bridge.metrics import Ours, for_report
from tests.bridge.chunks import DATA

ROOT = Path(__file__).parents[2]
RECORDED = (DATA / "vllm" / "metrics_capacity.txt").read_text()


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_report_takes_what_the_console_reads_unchanged() -> None:
    kept = for_report(RECORDED)
    names = {line.partition("{")[0].split(" ")[0] for line in kept.splitlines() if not line.startswith("#")}
    assert {"vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:generation_tokens_total"} <= names
    assert "process_start_time_seconds" in names
    assert {name for name in names if name.endswith("_bucket")} == {
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
    }
    assert not [name for name in names if name.endswith("_created") or name.startswith(("python_", "http_"))]
    assert "# HELP" not in kept
    assert set(kept.splitlines()) <= set(RECORDED.splitlines())
    assert len(kept) < len(RECORDED) / 2
    before, after = samples(RECORDED), samples(kept)
    assert after.items() <= before.items()


def test_nothing_of_nothing() -> None:
    assert for_report("") == ""
    assert for_report("garbage\n# TYPE\n# TYPE x\n") == ""


def test_our_families_parse_and_say_what_the_ledger_says() -> None:
    ledger = Ledger(9)
    one = Record("t1", "r", "s", "main", "m", True, 0.0)
    ledger.admit(one)
    one.phase, one.upstream_open, one.client_connected = "tool", True, False
    done = Record("t2", "r", "s", "main", "m", True, 0.0)
    ledger.admit(done)
    done.first_token_at, done.failed, done.stop = 0.3, True, "api_error"
    ledger.close(done, 1.0)
    text = Ours(ledger, ledger.connections(sockets=4), started_at=7.0, restarts=3).text().decode()
    got = samples(text)
    assert got["passerelle_turns_live{phase=tool}"] == 1
    assert got["passerelle_connections{end=orphans}"] == 1
    assert got["passerelle_connections{end=upstreams_idle}"] == 0
    assert got["passerelle_connections{end=sockets}"] == 4
    assert got["passerelle_turns_total"] == 2
    assert got["passerelle_failed_total"] == 1
    assert got["passerelle_turn_errors_total{kind=api_error}"] == 1
    assert got["passerelle_bridge_restarts_total"] == 3
    assert got["passerelle_time_to_first_token_seconds_bucket{le=0.5}"] == 1
    assert got["passerelle_time_to_first_token_seconds_bucket{le=0.25}"] == 0
    assert got["passerelle_time_to_first_token_seconds_count"] == 1
    assert all(line.startswith(("passerelle_", "# ")) for line in text.splitlines())


def test_restarts_are_absent_when_nobody_counts_them() -> None:
    ledger = Ledger(9)
    text = Ours(ledger, ledger.connections(sockets=0), started_at=7.0, restarts=None).text()
    assert b"bridge_restarts" not in text
    assert b"passerelle_turns_total" in text


def test_the_dashboard_asks_for_nothing_that_is_not_there() -> None:
    dashboard = (ROOT / "docs" / "grafana" / "passerelle.json").read_text()
    asked = set(re.findall(r"\b(passerelle_\w+|vllm:\w+)(?=[{),])", dashboard))
    ledger = Ledger(9)
    ledger.failed["api_error"] += 1
    ours = samples(Ours(ledger, ledger.connections(0, 0), started_at=7.0, restarts=3).text().decode())
    there = {name.partition("{")[0] for name in [*ours, *samples(RECORDED)]}
    assert len(asked) > 20
    assert asked - there == set()
