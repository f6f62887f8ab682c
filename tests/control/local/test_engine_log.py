from __future__ import annotations

import logging
import re

from control.local.engine_log import Tally, VllmFormatter, statistics

FORMAT = VllmFormatter(pid=7)


def line(name: str, text: str) -> str:
    return FORMAT.format(logging.LogRecord(name, logging.INFO, "/x/engine.py", 12, text, (), None))


def test_a_line_looks_like_vllms() -> None:
    assert re.fullmatch(
        r"\(EngineCore pid=7\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[engine\.py:12\] GPU KV cache size: 7 tokens",
        line("vllm.EngineCore", "GPU KV cache size: 7 tokens"),
    )
    assert line("uvicorn.error", "Shutting down") == "(APIServer pid=7) INFO:     Shutting down"


def test_every_line_of_a_text_has_the_prefix() -> None:
    lines = line("vllm.APIServer", "a\nb").splitlines()
    assert len(lines) == 2
    assert all(one.startswith("(APIServer pid=7) INFO ") for one in lines)


def test_statistics_read_as_vllms_do() -> None:
    text = statistics(
        Tally(10.0, 1000, 50), Tally(20.0, 12_423, 203), running=5, waiting=1, kv_usage=0.3434, hit_rate=0.386
    )
    assert text == (
        "Engine 000: Avg prompt throughput: 1142.3 tokens/s, Avg generation throughput: 15.3 tokens/s, "
        "Running: 5 reqs, Waiting: 1 reqs, GPU KV cache usage: 34.3%, Prefix cache hit rate: 38.6%"
    )
