"""A request as the ledger would have it, and what Prometheus would read of a text."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bridge.ledger import Record


def entry(name: str = "msg_1", agent: str = "main", stream: bool = True, at: float = 0.0) -> Record:
    return Record(name, "s", agent, "m", stream=stream, request_id="req_1", arrived_at=at)


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
