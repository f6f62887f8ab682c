"""What goes out to a client, byte for byte as vLLM 0.32 was recorded: SSE chunks, whole bodies, usage (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any

from control.local.engine_answer import Piece
from control.local.engine_request import Ask

DONE = b"data: [DONE]\n\n"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Cached:
    """What the prefix cache did for a prompt, in tokens. None in `Envelope` without --enable-prompt-tokens-details."""

    hit: int
    created: int
    """Tokens of the full blocks that this prompt added to the cache."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The parts of an answer that do not change from chunk to chunk."""

    id: str
    created: int
    """Unix seconds."""
    model: str
    fingerprint: str

    def head(self, kind: str) -> str:
        """An answer's object of that kind, up to the value of its choices."""
        model = compact(self.model)
        return f'{{"id":{compact(self.id)},"object":"{kind}","created":{self.created},"model":{model},"choices":'


class Encoder:
    """Turns one request's tokens into bytes: `stream` as they come, `whole` at the end."""

    def __init__(self, ask: Ask, envelope: Envelope) -> None:
        self._ask = ask
        self._envelope = envelope
        kind = "chat.completion.chunk" if ask.api == "chat" else "text_completion"
        self._head = f"data: {envelope.head(kind)}"
        self._sent = 0
        self._reasoned = 0
        self.parsed = {"tool_call": 0, "no_tool_call": 0}
        """Deltas that the tool parser looked at, by what it found."""

    def stream(self, pieces: Sequence[Piece], cached: Cached | None) -> bytes:
        """The chunks of newly generated tokens; the last token of the answer ends the stream."""
        chunks: list[str] = [] if self._sent or not pieces else [self._first()]
        last = self._sent + len(pieces) == len(self._ask.answer.pieces)
        groups = [(key, list(group)) for key, group in groupby(pieces, key=lambda piece: (piece.kind, piece.call))]
        for index, ((kind, _call), group) in enumerate(groups):
            self._sent += len(group)
            self._reasoned += len(group) if kind == "reasoning" else 0
            final = last and index == len(groups) - 1
            delta = self._delta(group)
            if delta or final:
                chunks.append(self._chunk(delta, final=final))
        if not last:
            return "".join(chunks).encode("utf-8", "replace")
        if self._ask.include_usage:
            chunks.append(f"{self._head}[],{self._usage(cached)}{self._print()}}}\n\n")
        return "".join(chunks).encode("utf-8", "replace") + DONE

    def whole(self, cached: Cached | None) -> bytes:
        """The body of a request that did not stream."""
        pieces = self._ask.answer.pieces
        self._sent = len(pieces)
        self._reasoned = sum(1 for piece in pieces if piece.kind == "reasoning")
        if self._ask.tools:
            self.parsed["tool_call" if any(piece.kind == "tool" for piece in pieces) else "no_tool_call"] += 1
        usage = self._usage(cached, whole=True)
        body = self._chat_body(pieces, usage) if self._ask.api == "chat" else self._text_body(pieces, usage)
        return body.encode("utf-8", "replace")

    def _first(self) -> str:
        if self._ask.api == "completions":
            return ""
        choice = '[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return f'{self._head}{choice}{self._running()},"prompt_token_ids":null,"prompt_text":null}}\n\n'

    def _chunk(self, delta: str, *, final: bool) -> str:
        finish = compact(self._ask.answer.finish) if final else "null"
        reason = compact(self._ask.answer.stop_reason)
        if self._ask.api == "completions":
            rest = f'"logprobs":null,"finish_reason":{finish},"stop_reason":{reason if final else "null"}'
            choice = f'[{{"index":0,"text":{delta or compact("")},{rest},"prompt_token_ids":null,"token_ids":null}}]'
        else:
            stop = f'"stop_reason":{reason},' if final else ""
            choice = (
                f'[{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":{finish},{stop}"token_ids":null}}]'
            )
        return f"{self._head}{choice}{self._running()}}}\n\n"

    def _delta(self, group: Sequence[Piece]) -> str:
        """The inside of `delta` (of `text` for completions); empty when there is nothing to say."""
        kind = group[0].kind
        text = compact("".join(piece.text for piece in group))
        if kind == "silent" or (text == '""' and kind != "tool"):
            return ""
        if self._ask.api == "completions":
            return text
        if kind == "reasoning":
            return f'"reasoning":{text}' if self._ask.include_reasoning else ""
        if self._ask.tools:
            self.parsed["no_tool_call" if kind == "text" else "tool_call"] += 1
        if kind == "text":
            return f'"content":{text}'
        index = group[0].call
        if kind == "tool":
            call = f'"id":"{self._call_id(index)}","type":"function","index":{index},"function":{{"name":{text}}}'
        else:
            call = f'"index":{index},"function":{{"arguments":{text}}}'
        return f'"content":null,"tool_calls":[{{{call}}}]'

    def _call_id(self, index: int) -> str:
        return f"chatcmpl-tool-{blake2b(f'{self._envelope.id} {index}'.encode(), digest_size=8).hexdigest()}"

    def _counts(self) -> str:
        prompt = self._ask.prompt_tokens
        return f'"prompt_tokens":{prompt},"total_tokens":{prompt + self._sent},"completion_tokens":{self._sent}'

    def _thought(self) -> str:
        return f'"completion_tokens_details":{{"reasoning_tokens":{self._reasoned}}}'

    def _running(self) -> str:
        if not self._ask.continuous_usage:
            return ""
        details = f",{self._thought()}" if self._ask.api == "chat" else ""
        return f',"usage":{{{self._counts()}{details}}}'

    def _usage(self, cached: Cached | None, *, whole: bool = False) -> str:
        usage = self._counts()
        chat = self._ask.api == "chat"
        if cached is not None:
            created = f',"created_cache_tokens":{cached.created}' if chat else ""
            media = ',"multimodal_tokens":null' if whole and chat else ""
            usage += f',"prompt_tokens_details":{{"cached_tokens":{cached.hit}{created}{media}}}'
        elif whole:
            usage += ',"prompt_tokens_details":null'
        if chat:
            usage += f",{self._thought()}"
        return f'"usage":{{{usage}}}'

    def _print(self) -> str:
        return f',"system_fingerprint":"{self._envelope.fingerprint}"'

    def _chat_body(self, pieces: Sequence[Piece], usage: str) -> str:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": _joined(pieces, "text") or ("" if self._ask.named else None),
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
        }
        calls = [self._whole_call(index, pieces) for index in sorted({p.call for p in pieces if p.kind == "tool"})]
        if calls:
            message["tool_calls"] = calls
        message["reasoning"] = (_joined(pieces, "reasoning") if self._ask.include_reasoning else "") or None
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._ask.answer.finish,
            "stop_reason": self._ask.answer.stop_reason,
            "token_ids": None,
            "routed_experts": None,
        }
        head = self._envelope.head("chat.completion")
        tail = '"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null'
        rest = f'"service_tier":null{self._print()},{usage},{tail},"ec_transfer_params":null,"metrics":null}}'
        return f"{head}[{compact(choice)}],{rest}"

    def _whole_call(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        mine = [piece for piece in pieces if piece.call == index]
        function = {"name": _joined(mine, "tool"), "arguments": _joined(mine, "arguments")}
        return {"id": self._call_id(index), "type": "function", "function": function}

    def _text_body(self, pieces: Sequence[Piece], usage: str) -> str:
        choice = {
            "index": 0,
            "text": _joined(pieces, "text"),
            "logprobs": None,
            "finish_reason": self._ask.answer.finish,
            "stop_reason": self._ask.answer.stop_reason,
            "token_ids": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
        }
        head = self._envelope.head("text_completion")
        rest = f'"service_tier":null{self._print()},{usage},"kv_transfer_params":null}}'
        return f"{head}[{compact(choice)}],{rest}"


def _joined(pieces: Iterable[Piece], kind: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind == kind)
