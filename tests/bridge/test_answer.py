from __future__ import annotations

import json

from bridge.answer import Head, Relay
from bridge.errors import EngineBroken, EngineUnreachable


def test_a_relay_passes_status_type_and_bytes() -> None:
    relay = Relay(request_id="req_1")
    relay.opened(200, "text/event-stream", 1.0)
    assert relay.feed(b"data: x\n\n", 2.0) == [b"data: x\n\n"]
    assert relay.eof(3.0) == []
    assert relay.ended
    assert relay.head == Head(200, "text/event-stream")
    assert (relay.progress.stop, relay.progress.failed, relay.ping_due) == ("status 200", False, None)


def test_an_engines_refusal_is_passed_too_and_counts_as_failed() -> None:
    relay = Relay(request_id="req_1")
    relay.opened(400, "application/json", 1.0)
    assert relay.feed(b'{"error":{}}', 1.0) == [b'{"error":{}}']
    relay.eof(2.0)
    assert relay.progress.failed


def test_failures_before_and_after_the_first_byte() -> None:
    early = Relay(request_id="req_1")
    (body,) = early.fail(EngineUnreachable("down"), 1.0)
    assert early.head.status == 529
    assert json.loads(body)["error"]["message"] == "down"

    late = Relay(request_id="req_1")
    late.opened(200, "text/event-stream", 1.0)
    late.feed(b"data: par", 2.0)
    (event,) = late.fail(EngineBroken("cut"), 3.0)
    assert json.loads(event.split(b"data: ")[1])["error"]["message"] == "cut"
    assert late.fail(EngineBroken("again"), 4.0) == []
