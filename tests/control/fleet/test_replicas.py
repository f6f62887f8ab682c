"""Where a replica serves, read from its pod's own report; and what happens while a pod is silent or unknown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from control.fleet import replicas
from control.fleet.models import Place
from control.fleet.replicas import Replica, place
from control.local.provider import LocalProvider
from control.models import Pod, PodId, PodState, Price, Tokens
from tests.control.observe.reports import seen, status
from tests.control.scripted_pod import POD, report, scripted_pod

TOKENS = Tokens("pas-client-x", "pas-operator-x")


def pod(provider: str) -> Pod:
    return Pod(
        PodId("p"), provider, PodState.RUNNING, Price(1.0), None, "https://p-8080.proxy.runpod.net", 0.0, 0.0, 0.0
    )


def where(provider: str, state: str, *command: str, draining: bool = False) -> Place | None:
    said = status()
    said = replace(said, engine=replace(said.engine, state=state, command=command))  # type: ignore[arg-type]
    told = replace(seen().report, bootstrap=msgspec.to_builtins(said), draining=draining)
    return place(pod(provider), TOKENS, told)


def test_an_embedded_pod_serves_at_its_engines_port_a_rented_one_at_its_bridge_with_its_token() -> None:
    assert where("local", "serving", "vllm", "serve", "--port", "8123") == Place("serving", "http://127.0.0.1:8123")
    rented = where("runpod", "serving", "vllm", "serve", "--port", "8123")
    assert rented == Place("serving", "https://p-8080.proxy.runpod.net", "pas-client-x")
    assert "pas-client-x" not in repr(rented)


@pytest.mark.parametrize(
    ("state", "is_now"),
    [("loading", "waiting"), ("backoff", "waiting"), ("draining", "waiting"), ("asleep", "waiting"), ("fatal", "down"),
     ("stopped", "down"), ("stopping", "down")],
)  # fmt: skip
def test_one_that_does_not_serve_takes_no_turns(state: str, is_now: str) -> None:
    found = where("runpod", state)
    assert found is not None
    assert (found.state, found.url) == (is_now, None)
    assert state in found.reason


def test_a_pod_that_drains_takes_no_turns() -> None:
    found = where("runpod", "serving", draining=True)
    assert found is not None
    assert found.state == "waiting"


def test_a_supervisor_that_is_late_moves_no_conversation() -> None:
    assert place(pod("local"), TOKENS, replace(seen().report, bootstrap=None, bootstrap_error="late")) is None


async def test_a_replica_is_followed_and_missed_only_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "LOOK_S", 0.01)
    monkeypatch.setattr(replicas, "SILENT_S", 0.1)
    said = msgspec.to_builtins(status())
    said["engine"] |= {"state": "serving", "command": ["x", "--port", "77"]}
    with scripted_pod(tmp_path) as script:
        script.bridge["GET /pod/report"] = 200, report(bootstrap=said)
        one = Replica(POD, LocalProvider(tmp_path))
        async with asyncio.TaskGroup() as group:
            following = group.create_task(one.follow())
            await until(one, Place("serving", "http://127.0.0.1:77"))
            script.bridge["GET /pod/report"] = 502, "bad gateway"
            await asyncio.sleep(0.02)
            assert one.place == Place("serving", "http://127.0.0.1:77")
            async with asyncio.timeout(5):
                while "502" not in one.place.reason:  # noqa: ASYNC110 - nothing signals it
                    await asyncio.sleep(0.005)
            assert one.place.state == "down"
            script.bridge["GET /pod/report"] = 200, report(bootstrap=said)
            await until(one, Place("serving", "http://127.0.0.1:77"))
            following.cancel()


async def until(one: Replica, wanted: Place) -> None:
    async with asyncio.timeout(5):
        while one.place != wanted:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.005)


async def test_a_pod_that_nobody_knows_is_down_in_words(tmp_path: Path) -> None:
    one = Replica(PodId("local-none"), LocalProvider(tmp_path))
    async with asyncio.TaskGroup() as group:
        following = group.create_task(one.follow())
        await until(one, Place("down", reason="there is no local pod local-none"))
        following.cancel()
