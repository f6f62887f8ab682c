"""The front's two sides of the router, on real sockets: who is let in, what is changed, what is left as it is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from control.fleet import life, router, tunnel
from control.fleet.front import router_program
from control.fleet.models import FrontStatus, Place
from control.fleet.router import SESSION, Ports
from control.local import processes
from control.local.provider import LocalProvider, Options
from control.models import Target
from control.podlink import PodLink
from tests.control.fleet.inside import OK, SECRET, Asked, Far, Inside, running

CHAT = "/v1/chat/completions"
TALK = {"messages": [{"role": "user", "content": "hi"}]}
BEARER = {"authorization": f"Bearer {SECRET}"}


async def test_each_request_to_the_router_bears_its_conversation() -> None:
    async with running(Far()) as front:
        for more in ([], [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]):
            sent = {"messages": TALK["messages"] + more, "stream": True, "odd": {"π": [1]}}
            answer = await front.http.post(front.front(f"{CHAT}?beta=true"), json=sent)
            assert (answer.status_code, answer.text) == (200, "ok")
            assert json.loads(front.router.asked[-1].body) == {"model": "", "messages": [], "stream": True}
        other = {"messages": [{"role": "user", "content": "another"}]}
        await front.http.post(front.front(CHAT), json=other)
    heads = [one.head for one in front.router.asked]
    assert [head.target for head in heads] == [f"{CHAT}?beta=true"] * 2 + [CHAT]
    sessions = [head.get(SESSION) for head in heads]
    assert sessions[0] == sessions[1] != sessions[2]
    assert None not in sessions
    assert {head.get("authorization") for head in heads} == {BEARER["authorization"]}
    assert {head.get("connection") for head in heads} == {"close"}


async def test_what_the_bridge_sent_is_what_the_replica_gets_to_the_byte() -> None:
    async with running(Far()) as front:

        async def chooses(asked: Asked) -> None:
            passed = [pair for pair in asked.head.headers if pair[0] not in ("host", "connection")]
            for _ in range(2):  # it tries again where the first try failed
                answer = await front.http.post(front.door(0, CHAT), content=asked.body, headers=passed)
            asked.writer.write(OK)
            assert answer.text == "ok"

        front.router.script = chooses
        body = (
            b'{"model":"m", "messages":[{"role":"user","content":"\xc3\xa9","odd":1}],  "stream":false, "more":[1.0]}'
        )
        await front.http.post(front.front(CHAT), content=body)
        await front.http.post(front.door(0, CHAT), content=b"{}", headers={**BEARER, "x-passerelle-turn": "over"})
    first, again, other = front.replicas[0].asked
    assert first.body == again.body == body
    assert other.body == b"{}"
    assert first.head.get("x-passerelle-turn") is None
    assert first.head.length == len(body)


async def test_a_bridge_that_names_the_conversation_is_believed() -> None:
    async with running(Far()) as front:
        await front.http.post(front.front(CHAT), json=TALK, headers={SESSION: "mine"})
        await front.http.post(front.front("/v1/completions"), json={"prompt": "x"})
    assert [one.head.get(SESSION) for one in front.router.asked] == ["mine", None]


async def test_a_rented_replica_gets_its_own_token_host_and_user_agent_and_nothing_of_ours() -> None:
    async with running(Far()) as front:
        front.place(0, Place("serving", f"http://localhost:{front.replicas[0].port}", "pas-client-x"))
        answer = await front.http.post(front.door(0, CHAT), json=TALK, headers={**BEARER, SESSION: "c-1"})
        assert answer.status_code == 200
    head = front.replicas[0].asked[0].head
    assert head.target == CHAT
    assert head.get("authorization") == "Bearer pas-client-x"
    assert head.get("host") == f"localhost:{front.replicas[0].port}"
    assert head.get("user-agent") == "passerelle"
    assert head.get("x-claude-code-session-id") == "c-1"
    assert SECRET not in str(head)


async def test_an_engine_on_this_machine_gets_no_token() -> None:
    async with running(Far()) as front:
        await front.http.post(front.door(0, CHAT), json=TALK, headers=BEARER)
    assert front.replicas[0].asked[0].head.get("authorization") is None


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}, {"authorization": f"Basic {SECRET}"}])
async def test_nobody_else_gets_in(headers: dict[str, str]) -> None:
    async with running(Far()) as front:
        assert (await front.http.post(front.door(0, CHAT), json=TALK, headers=headers)).status_code == 401
        wrong = front.front(CHAT).replace(SECRET, "planted0secreu")
        assert (await front.http.post(wrong, json=TALK, headers=headers)).status_code == 401
        assert (await front.http.get(front.front("").replace("/inside/", "/outside/"))).status_code == 401
        assert front.router.asked == front.replicas[0].asked == []


async def test_health_is_what_is_known_of_the_replica() -> None:
    async with running(Far(), Far()) as front:
        front.place(1, Place("waiting", reason="its engine is loading"))
        first, second = [await front.http.get(front.door(at, "/health")) for at in (0, 1)]
        assert (first.status_code, second.status_code) == (200, 503)
        assert "loading" in second.text
        refused = await front.http.post(front.door(1, CHAT), json=TALK, headers=BEARER)
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "overloaded_error")
        assert front.replicas[1].asked == []


async def test_a_replica_that_refuses_is_a_503_that_the_router_tries_elsewhere() -> None:
    async with running(Far()) as front:
        front.place(0, Place("serving", "http://127.0.0.1:1"))
        answer = await front.http.post(front.door(0, CHAT), json=TALK, headers=BEARER)
        assert answer.status_code == 503


async def test_what_comes_is_copied_as_it_comes() -> None:
    halfway = asyncio.Event()

    async def slowly(asked: Asked) -> None:
        asked.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-odd: \xe9\r\n\r\n3\r\none\r\n")
        await halfway.wait()
        asked.writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with (
        running(Far(slowly)) as front,
        front.http.stream("POST", front.door(0, CHAT), json=TALK, headers=BEARER) as answer,
    ):
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"one"
        assert next(iter(front.tunnel.doors.values())).turns == 1
        halfway.set()
        assert await anext(pieces) == b"two"


async def test_an_answer_that_is_cut_stays_cut() -> None:
    async def cut(asked: Asked) -> None:
        asked.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await asked.writer.drain()

    async with running(Far(cut)) as front:
        with pytest.raises(httpx.RemoteProtocolError):
            await front.http.post(front.door(0, CHAT), json=TALK, headers=BEARER)


async def test_one_that_closes_without_an_answer_is_a_502() -> None:
    async def shut(asked: Asked) -> None:
        asked.writer.close()

    async with running(Far(shut)) as front:
        assert (await front.http.post(front.door(0, CHAT), json=TALK, headers=BEARER)).status_code == 502


async def test_a_client_that_leaves_is_left_to_nobody() -> None:
    gone = asyncio.Event()

    async def silent(asked: Asked) -> None:
        await asked.reader.read()
        gone.set()

    far = Far(silent)
    async with running(far) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        body = json.dumps(TALK).encode()
        path = next(iter(front.tunnel.doors)) + CHAT
        head = f"POST {path} HTTP/1.1\r\nauthorization: Bearer {SECRET}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        async with asyncio.timeout(5):
            while not far.asked:  # noqa: ASYNC110 - nothing signals what a socket does
                await asyncio.sleep(0.005)
            writer.close()
            await gone.wait()
            while next(iter(front.tunnel.doors.values())).turns:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.005)
        del reader


async def test_where_a_conversation_is_and_that_it_moved() -> None:
    async def fails(asked: Asked) -> None:
        asked.writer.write(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n")

    async with running(Far(), Far(), Far(fails)) as front:
        for at, session in ((0, "a"), (0, "b"), (1, "a"), (2, "b")):
            await front.http.post(front.door(at, CHAT), json=TALK, headers={**BEARER, SESSION: session})
        rows = [door.status(0.0) for door in front.tunnel.doors.values()]
    assert [(row.conversations, row.moved) for row in rows] == [(1, 1), (1, 0), (0, 0)]


async def test_what_any_replica_can_answer_goes_to_one_that_serves() -> None:
    async with running(Far(), Far()) as front:
        front.place(0, Place("down", reason="stopped"))
        assert (await front.http.get(front.front("/v1/models"))).text == "ok"
        assert (await front.http.post(front.front("/tokenize"), json={})).text == "ok"
        assert [one.head.target for one in front.replicas[1].asked] == ["/v1/models", "/tokenize"]
        front.place(1, Place("down", reason="gone too"))
        none = await front.http.get(front.front("/v1/models"))
        assert none.status_code == 503
        assert "stopped" in none.text
        assert "gone too" in none.text
        assert front.router.asked == []


async def test_metrics_are_the_routers_and_the_front_says_how_it_does() -> None:
    async with running(Far()) as front:
        assert (await front.http.get(front.front("/metrics"))).text == "ok"
        assert front.router.asked[0].head.target == "/metrics"
        said = (await front.http.get(front.front("/front"))).json()
        assert set(said) == set(FrontStatus.__slots__)
        assert (await front.http.post(front.front("/v1/messages"), json={})).status_code == 404


async def test_a_router_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "ROUTER_S", 0.3)
    async with running(Far()) as front:
        there = front.tunnel.ports
        front.tunnel.ports = Ports(1, 1, 0)
        away = await front.http.post(front.front(CHAT), json=TALK)
        assert away.status_code == 503
        assert "router" in away.text
        monkeypatch.setattr(tunnel, "ROUTER_S", 5.0)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(front.http.post(front.front(CHAT), json=TALK))
            group.create_task(_later(front.tunnel, there))
        assert asking.result().text == "ok"


async def _later(one: tunnel.Tunnel, ports: Ports) -> None:
    await asyncio.sleep(0.05)
    one.ports = ports


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * tunnel.HEAD_MOST + b"\r\n\r\n", 400),
    ],
)
async def test_nonsense_is_answered_and_ends_nothing(raw: bytes, status: int) -> None:
    async with running(Far()) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(raw)
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
        body = await front.http.post(front.front(CHAT), content=b"{")
        assert body.status_code == 400
        assert (await front.http.get(front.front("/v1/models"))).status_code == 200


@pytest.mark.process
@pytest.mark.timeout(120)
async def test_the_real_router_reaches_a_rented_replica_by_its_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's bridge, with its token, is what a rented replica is; on the way, nothing of a request may be lost."""
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    provider = LocalProvider(tmp_path)
    pod = await provider.create(Options())
    try:
        assert await life.wait_serving([pod.id], lambda _: None, 30.0) == ()
        tokens = await provider.tokens(pod.id)
        async with running(Far()) as front:
            front.place(0, Place("serving", pod.url, tokens.client))
            with real_router(front, tmp_path / "router.log"):
                talk = [{"role": "user", "content": '[[sim [{"text": "one"}, {"text": "two"}]]]'}]
                first = await ask(front, talk)
                second = await ask(front, [*talk, {"role": "assistant", "content": first}])
                homes = next(iter(front.tunnel.doors.values())).homes
                async with asyncio.timeout(10):  # a client has its last byte before the tunnel has written that down
                    while not homes:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
        assert (first, second) == ("one", "two")
        async with PodLink(Target(pod.url or "", tokens.operator)) as link:
            report = await link.report()
        sessions = {turn.session for turn in report.agents}
        assert sessions == set(homes)
        assert len(sessions) == 1
    finally:
        await provider.terminate(pod.id)


async def ask(front: Inside, messages: list[dict[str, str]]) -> str:
    body = {
        "model": "qwen3-coder",
        "messages": messages,
        "stream": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    async with asyncio.timeout(30):
        while (answer := await front.http.post(front.front(CHAT), json=body)).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    chunks = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


class real_router:  # noqa: N801 - a context manager
    """vllm-router with the tunnel's first replica as its own."""

    def __init__(self, front: Inside, log: Path) -> None:
        front.tunnel.ports = Ports(processes.free_port(), processes.free_port(), front.port)
        argv = router.argv(
            router_program(), front.tunnel.ports, [front.tunnel.doors[next(iter(front.tunnel.doors))].replica.id]
        )
        self._argv, self._log = argv, log

    def __enter__(self) -> None:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(self._argv, stdout=out, stderr=out, env=os.environ | router.VARIABLES)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
