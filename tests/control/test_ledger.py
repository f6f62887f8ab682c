"""What a pod worked while it was watched: kept, added up over restarts, begun anew when it cannot be read."""

from __future__ import annotations

from pathlib import Path

from control.cost import Tokens
from control.ledger import Entry, Ledger, see, tokens_of
from control.models import PodId
from control.observe import scrape

ID = PodId("local-0001")
TEXT = """\
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{source="local_compute"} 70
vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 30
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total 5
# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_sum 1.5
vllm:request_decode_time_seconds_sum 4.5
"""


def test_the_first_counters_are_of_work_before_the_watch() -> None:
    entry = see(Entry(), True, Tokens(100, 10, 1.0, 2.0), 50.0)
    assert (entry.total, entry.since) == (Tokens(0, 0, 0, 0), 50.0)
    entry = see(entry, False, Tokens(150, 30, 2.0, 5.0), 55.0)
    entry = see(entry, False, Tokens(20, 4, 0.5, 0.5), 60.0)
    assert entry.total == Tokens(70, 24, 1.5, 3.5), "an engine that began anew counts from zero"
    assert entry.work.idle_share == 0.5
    assert see(entry, True, None, 61.0).total == entry.total


def test_the_counters_of_a_scrape() -> None:
    assert tokens_of(scrape.parse(TEXT)) == Tokens(100, 5, 1.5, 4.5)
    assert tokens_of(scrape.parse("")) is None


def test_it_is_kept_with_the_pod_and_not_without(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, ID)
    ledger.see(True, Tokens(1, 1), 100.0)
    assert not (tmp_path / "pods").exists(), "a pod that is not known here gets no folder"
    (tmp_path / "pods" / ID).mkdir(parents=True)
    ledger.see(True, Tokens(2, 1), 111.0)
    assert Ledger(tmp_path, ID).entry == ledger.entry
    ledger.see(False, Tokens(3, 1), 112.0)
    assert Ledger(tmp_path, ID).entry != ledger.entry, "written at most every 10 s"
    (tmp_path / "pods" / ID / "work.json").write_text("{")
    assert Ledger(tmp_path, ID).entry == Entry()
