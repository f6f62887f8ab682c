from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import AtCapacity, Draining
from bridge.ledger import GAP_BOUNDS, MAX_FINISHED, Ledger, Prefixes, Record, _common
from tests.bridge.chunks import DATA
from tests.bridge.records import entry, samples


def admitted(ledger: Ledger, number: int, agent: str = "main") -> Record:
    one = entry(f"t{number}", agent)
    ledger.admit(one)
    return one


def test_a_live_turn_is_reported_as_it_is() -> None:
    ledger = Ledger(9)
    one = entry("t1", at=10.0)
    ledger.admit(one)
    one.upstream_open = True
    one.decodes("text", 12.0)
    one.last_byte_at = 15.0
    one.input_tokens, one.output_tokens = 100, 7
    (turn,) = ledger.turns(20.0)
    assert (turn.age_s, turn.ttft_s, turn.last_byte_age_s, turn.phase) == (10.0, 2.0, 5.0, "text")
    assert (turn.input_tokens, turn.cached_tokens, turn.output_tokens) == (100, None, 7)
    assert ledger.agents(20.0) == ledger.finished(20.0, 9) == ()
    assert ledger.totals()["output_tokens"] == 7


def test_an_ended_turn_is_remembered_for_its_agent() -> None:
    ledger = Ledger(9)
    one = entry("t1", at=10.0)
    ledger.admit(one)
    one.decodes("text", 12.0)
    one.last_byte_at, one.stop = 15.0, "end_turn"
    one.input_tokens, one.cached_tokens, one.output_tokens, one.pings = 100, 60, 31, 2
    ledger.close(one, 15.5)
    assert ledger.turns(16.0) == ()
    (turn,) = ledger.agents(20.5)
    assert (turn.agent, turn.ended_age_s, turn.stop, turn.ttft_s, turn.tok_s) == ("main", 5.0, "end_turn", 2.0, 10.0)
    assert ledger.finished(20.5, 9) == (turn,)
    totals = ledger.totals()
    assert (totals["completed"], totals["pings"], totals["cached_tokens"], totals["output_tokens"]) == (1, 2, 60, 31)


def test_ways_to_end_are_counted_apart() -> None:
    ledger = Ledger(9)
    good, bad, gone = (admitted(ledger, number) for number in (1, 2, 3))
    bad.failed, bad.stop, bad.guarded = True, "overloaded_error", "..."
    gone.client_connected = False
    for one in (good, bad, gone):
        ledger.close(one, 1.0)
    totals = ledger.totals()
    assert [totals[name] for name in ("turns", "completed", "failed", "client_gone", "guarded")] == [3, 1, 1, 1, 1]
    assert ledger.failed == {"overloaded_error": 1}
    assert ledger.agents(1.0)[0].stop == "client_gone"


def test_the_limit_refuses_at_once_and_counts_what_still_closes() -> None:
    ledger = Ledger(1)
    one = admitted(ledger, 1)
    one.client_connected = False
    with pytest.raises(AtCapacity):
        ledger.admit(entry("t2"))
    ledger.close(one, 1.0)
    ledger.admit(entry("t3"))
    assert (ledger.totals()["refused"], ledger.totals()["turns"]) == (1, 2)


def test_a_drain_turns_new_requests_away_and_ends() -> None:
    ledger = Ledger(9)
    ledger.draining = True
    with pytest.raises(Draining):
        ledger.admit(entry("t1"))
    ledger.draining = False
    ledger.admit(entry("t1"))
    assert ledger.totals()["refused"] == 1


def test_connections_are_counted_at_both_ends() -> None:
    ledger = Ledger(9)
    waiting, orphan = admitted(ledger, 1), admitted(ledger, 2)
    waiting.upstream_open = orphan.upstream_open = True
    orphan.client_connected = False
    assert astuple(ledger.connections(sockets=5, upstream_sockets=3)) == (1, 5, 2, 1, 3)


def test_of_what_ended_the_newest_are_kept_and_each_agent_once() -> None:
    ledger = Ledger(MAX_FINISHED + 9)
    for number in range(MAX_FINISHED + 5):
        ledger.close(admitted(ledger, number, f"a{number % 3}"), float(number))
    finished = ledger.finished(0.0, 1000)
    assert [turn.id for turn in finished[:2]] == [f"t{MAX_FINISHED + 4}", f"t{MAX_FINISHED + 3}"]
    assert len(finished) == MAX_FINISHED
    assert ledger.finished(0.0, 2) == finished[:2]
    assert {turn.id for turn in ledger.agents(0.0)} == {turn.id for turn in finished[:3]}


@given(st.lists(st.sampled_from(["admit", "close", "leave", "fail", "token"]), max_size=40))
def test_nothing_is_lost_or_counted_twice_in_any_order(steps: list[str]) -> None:
    ledger, live, now = Ledger(3), list[Record](), 0.0
    tokens = 0
    for number, step in enumerate(steps):
        now += 1.0
        if step == "admit" and len(live) < 3:
            live.append(admitted(ledger, number))
        elif live and step == "close":
            ledger.close(live.pop(0), now)
        elif live and step == "leave":
            live[0].client_connected = False
        elif live and step == "fail":
            live[0].failed = True
        elif live and step == "token":
            live[0].output_tokens += 1
            tokens += 1
    totals = ledger.totals()
    assert totals["turns"] == totals["completed"] + totals["failed"] + totals["client_gone"] + len(live)
    assert totals["output_tokens"] == tokens
    assert len(ledger.turns(now)) == len(live)


def told(ledger: Ledger, restarts: int | None = 3) -> str:
    return "".join(ledger.metrics(ledger.connections(sockets=4), started_at=7.0, restarts=restarts))


def gaps(ledger: Ledger, upto: str) -> float:
    return samples(told(ledger))[f"passerelle_inter_token_gap_seconds_bucket{{le={upto}}}"]


def test_gaps_are_between_reads_while_it_decodes() -> None:
    ledger = Ledger(9)
    one = admitted(ledger, 1)
    ledger.heard(one, 5.0)
    ledger.heard(one, 9.0)
    one.decodes("text", 9.0)
    for now in (9.004, 9.014, 9.314, 108.314):
        ledger.heard(one, now)
    bounds = (str(GAP_BOUNDS[0]), "0.025", "0.5", str(GAP_BOUNDS[-1]), "+Inf")
    assert [gaps(ledger, bound) for bound in bounds] == [1, 2, 3, 3, 4]
    assert one.last_byte_at == 108.314


def test_the_decode_rate_needs_something_to_divide() -> None:
    ledger = Ledger(9)
    one = admitted(ledger, 1)
    one.decodes("text", 1.0)
    one.last_byte_at = 1.0
    ledger.close(one, 1.0)
    assert ledger.agents(1.0)[0].tok_s is None


def test_our_families_parse_and_say_what_the_ledger_says() -> None:
    ledger = Ledger(9)
    one, done = admitted(ledger, 1), admitted(ledger, 2)
    one.phase, one.upstream_open, one.client_connected = "tool", True, False
    done.decodes("text", 0.3)
    done.failed, done.stop = True, "api_error"
    ledger.close(done, 1.0)
    text = told(ledger)
    got = samples(text)
    assert got["passerelle_turns_live{phase=tool}"] == 1
    assert got["passerelle_connections{end=orphans}"] == 1
    assert got["passerelle_connections{end=sockets}"] == 4
    assert got["passerelle_turns_total"] == 2
    assert got["passerelle_failed_total"] == 1
    assert got["passerelle_turn_errors_total{kind=api_error}"] == 1
    assert got["passerelle_bridge_restarts_total"] == 3
    assert got["passerelle_time_to_first_token_seconds_bucket{le=0.5}"] == 1
    assert got["passerelle_time_to_first_token_seconds_bucket{le=0.25}"] == 0
    assert got["passerelle_time_to_first_token_seconds_count"] == 1
    assert got["passerelle_time_to_first_token_seconds_sum"] == 0.3
    assert all(line.startswith(("passerelle_", "# ")) for line in text.splitlines())


def test_restarts_are_absent_when_nobody_counts_them() -> None:
    text = told(Ledger(9), restarts=None)
    assert "bridge_restarts" not in text
    assert "passerelle_turns_total" in text


def test_the_dashboard_asks_for_nothing_that_is_not_there() -> None:
    dashboard = (Path(__file__).parents[2] / "docs" / "grafana" / "passerelle.json").read_text()
    asked = set(re.findall(r"\b(passerelle_\w+|vllm:\w+)(?=[{),])", dashboard))
    ledger = Ledger(9)
    ledger.failed["api_error"] += 1
    engines = samples((DATA / "vllm" / "metrics_capacity.txt").read_text())
    there = {name.partition("{")[0] for name in [*samples(told(ledger)), *engines]}
    assert len(asked) > 20
    assert asked - there == set()


WHO = ("session", "main")


def asks(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts], **fields}


def test_a_prompt_that_grows_or_goes_back_keeps_its_prefix() -> None:
    one = Prefixes()
    assert one.take(WHO, asks("a")) is None
    assert one.take(WHO, asks("a", "b")) is None
    assert one.take(WHO, asks("a", "b", "c")) is None
    assert one.take(WHO, asks("a")) is None


def test_where_it_breaks_is_said_with_what_was_there() -> None:
    one = Prefixes()
    one.take(WHO, asks("first", "second question", "third"))
    said = one.take(WHO, asks("first", "second answer", "third"))
    assert said is not None
    before = len(b'null\nnull\n{"role":"user","content":"first"}\n{"role":"user","content":"second ')
    assert said.startswith(f"at byte {before} of ")
    assert ", in part 3: " in said
    assert "second question" in said.partition(" became ")[0]
    assert "second answer" in said.partition(" became ")[2]


def test_a_tool_that_comes_in_breaks_before_all_messages() -> None:
    one = Prefixes()
    one.take(WHO, asks("a", tools=[{"name": "f"}], system="S"))
    said = one.take(WHO, asks("a", tools=[{"name": "f"}, {"name": "g"}], system="S"))
    assert said is not None
    assert ", in part 2: " in said


def test_conversations_are_apart_and_odd_requests_are_no_error() -> None:
    one = Prefixes()
    one.take(WHO, asks("a"))
    assert one.take(("session", "other"), asks("b")) is None
    assert one.take(("x", "y"), {}) is None
    assert one.take(("x", "y"), {"messages": "text", "tools": 3}) is not None


def test_what_is_kept_is_bounded_and_the_longest_unused_goes_first() -> None:
    one = Prefixes(max_bytes=3000)
    for name in "abc":
        one.take(("s", name), asks(name * 1000))
    assert one.take(("s", "a"), asks("else")) is None
    assert one.take(("s", "c"), asks("else")) is not None


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_the_common_part_is_the_longest(head: bytes, one: bytes, other: bytes) -> None:
    first, second = head + one, head + other
    at = _common(first, second)
    assert first[:at] == second[:at]
    assert at == min(len(first), len(second)) or first[at] != second[at]
