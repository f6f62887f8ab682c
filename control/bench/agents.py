"""Six agents at work: the load that `passerelle demo` runs, through the bridge with the official anthropic client.

    python -m control.bench.agents --url http://127.0.0.1:8080 --agents 6      (token in PASSERELLE_CLIENT_TOKEN)

One JSON line per turn on stdout. Ends on SIGTERM, after --turns, or when the pod has been gone for --patience seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
from httpx2 import TransportError

from control.bench.conversation import TOOLS, Conversation, Sizes

RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """What to run."""

    url: str
    token: str
    model: str
    agents: int = 6
    turns: int | None = None
    """Per agent; None runs until it is ended."""
    sizes: Sizes = field(default_factory=Sizes)
    max_tokens: int = 1_024
    thinking: bool = True
    seed: int = 1
    patience_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn came to."""

    agent: int
    ok: bool
    seconds: float
    ttft_s: float | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    stop: str


async def run(load: Load, report: Callable[[Turn], None]) -> None:
    """All agents at once, until each has had its turns or the pod is gone."""
    async with (
        anthropic.AsyncAnthropic(base_url=load.url, auth_token=load.token, api_key=None, max_retries=2) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for number in range(1, load.agents + 1):
            tasks.create_task(_agent(client, load, number, report))


async def _agent(client: anthropic.AsyncAnthropic, load: Load, number: int, report: Callable[[Turn], None]) -> None:
    talk = Conversation.begin(number, load.sizes, load.seed)
    headers = {
        "x-claude-code-session-id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{load.seed}/{number}")),
        "x-claude-code-agent-id": f"a{number}{uuid.uuid5(uuid.NAMESPACE_DNS, f'{load.seed}/{number}').hex[:7]}",
    }
    done, gone_since = 0, None
    while load.turns is None or done < load.turns:
        began = time.monotonic()
        # A connection that breaks inside a stream is raised as the transport's own error, not wrapped by the client.
        try:
            content, turn = await _turn(client, load, talk, headers, began)
        except (anthropic.APIError, TransportError) as error:
            report(Turn(number, False, time.monotonic() - began, None, 0, 0, 0, _words(error)))
            gone_since = gone_since or began
            if time.monotonic() - gone_since > load.patience_s:
                return
            await asyncio.sleep(RETRY_S)
            continue
        gone_since = None
        done += 1
        report(turn)
        talk.answered(content)


async def _turn(
    client: anthropic.AsyncAnthropic, load: Load, talk: Conversation, headers: dict[str, str], began: float
) -> tuple[list[dict[str, Any]], Turn]:
    body: dict[str, Any] = {
        "model": load.model,
        "system": talk.system,
        "messages": talk.messages,
        "tools": TOOLS,
        "max_tokens": load.max_tokens,
        "thinking": {"type": "adaptive"} if load.thinking else {"type": "disabled"},
    }
    first: float | None = None
    async with client.messages.stream(**body, extra_headers=headers) as stream:
        async for event in stream:
            if first is None and event.type == "content_block_start":
                first = time.monotonic() - began
        message = await stream.get_final_message()
    content = [block.model_dump(exclude_none=True) for block in message.content]
    usage = message.usage
    turn = Turn(
        agent=talk.number,
        ok=True,
        seconds=time.monotonic() - began,
        ttft_s=first,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cache_read_input_tokens or 0,
        output_tokens=usage.output_tokens,
        stop=message.stop_reason or "",
    )
    return [_as_input(block) for block in content], turn


def _as_input(block: dict[str, Any]) -> dict[str, Any]:
    """A content block as it goes back in the history: the SDK's own parsed fields are not the API's."""
    keys = {
        "text": ("type", "text"),
        "thinking": ("type", "thinking", "signature"),
        "tool_use": ("type", "id", "name", "input"),
    }
    return {key: block[key] for key in keys.get(block["type"], tuple(block)) if key in block}


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _parse(argv: list[str]) -> Load:
    usual = Sizes()
    parser = argparse.ArgumentParser(prog="python -m control.bench.agents", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", default="qwen3-coder")
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--turns", type=int, default=None)
    parser.add_argument("--first", type=int, default=usual.first, help="tokens of the first prompt")
    parser.add_argument("--limit", type=int, default=usual.limit, help="tokens after which it begins anew")
    parser.add_argument("--result", type=int, nargs=2, default=usual.result, help="tokens of a tool's result")
    parser.add_argument("--max-tokens", type=int, default=1_024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=30.0)
    parser.add_argument("--no-thinking", action="store_true")
    args = parser.parse_args(argv)
    sizes = Sizes(first=args.first, limit=args.limit, result=(args.result[0], args.result[1]))
    return Load(
        url=args.url,
        token=os.environ.get("PASSERELLE_CLIENT_TOKEN", ""),
        model=args.model,
        agents=args.agents,
        turns=args.turns,
        sizes=sizes,
        max_tokens=args.max_tokens,
        thinking=not args.no_thinking,
        seed=args.seed,
        patience_s=args.patience,
    )


def _print(turn: Turn) -> None:
    line = {name: getattr(turn, name) for name in Turn.__slots__}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _until_told(load: Load) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await run(load, _print)


def main() -> None:
    """Exit code 0 however it was ended."""
    try:
        asyncio.run(_until_told(_parse(sys.argv[1:])))
    except asyncio.CancelledError:
        return


if __name__ == "__main__":
    main()
