"""The simulated engine's log: how a line looks, and what the statistics of every ten seconds say (pure)."""

from __future__ import annotations

import logging
from dataclasses import dataclass


class VllmFormatter(logging.Formatter):
    """`(APIServer pid=1) INFO 11-29 12:54:32 [engine.py:1] …`; uvicorn's lines as vLLM passes them through."""

    def __init__(self, pid: int) -> None:
        super().__init__(datefmt="%m-%d %H:%M:%S")
        self._pid = pid

    def format(self, record: logging.LogRecord) -> str:
        role = record.name.removeprefix("vllm.") if record.name.startswith("vllm.") else "APIServer"
        process = f"({role} pid={self._pid})"
        if record.name.startswith("uvicorn"):
            prefix = f"{process} {record.levelname + ':':<9} "
        else:
            when = self.formatTime(record, self.datefmt)
            prefix = f"{process} {record.levelname} {when} [{record.filename}:{record.lineno}] "
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return "\n".join(prefix + line for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class Tally:
    """Counters at one moment: what two statistics lines differ by."""

    at: float
    prompt: int
    """Prompt tokens computed, cached ones left out."""
    generated: int


def statistics(before: Tally, after: Tally, *, running: int, waiting: int, kv_usage: float, hit_rate: float) -> str:
    """vLLM's line of every ten seconds."""
    took = max(after.at - before.at, 1e-9)
    return (
        f"Engine 000: Avg prompt throughput: {(after.prompt - before.prompt) / took:.1f} tokens/s, "
        f"Avg generation throughput: {(after.generated - before.generated) / took:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {kv_usage * 100:.1f}%, "
        f"Prefix cache hit rate: {hit_rate * 100:.1f}%"
    )
