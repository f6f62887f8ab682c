"""From a turn of the script to the tokens that the simulated engine generates for one request (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal

from control.local.engine_schema import minimal
from control.local.engine_script import Call, Turn, filler
from control.local.engine_tokens import END, END_THINK, END_TOOL_CALL, TOOL_CALL, Tokens, canonical

Kind = Literal["reasoning", "text", "tool", "arguments", "silent"]
Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One generated token: what it adds to the answer, and its characters in the KV cache."""

    kind: Kind
    text: str
    """The characters that a client sees. For "tool": the name of the call that begins."""
    raw: str
    call: int = 0
    """Which tool call it belongs to."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request allows its answer to be."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    thinking: bool = True
    thinking_budget: int | None = None
    """None: no limit."""
    tools: Mapping[str, Any] | None = None
    """Schema by name; None when the request has no tools, and then no call is parsed."""
    choice: str = "auto"
    """auto, none, required, or "named:" and a tool's name."""
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """Every token of the answer, at least one, and how it ends."""

    pieces: tuple[Piece, ...]
    finish: Finish
    stop_reason: str | None = None

    def raw(self, tokens: Tokens) -> str:
        """The generated text as the KV cache holds it."""
        return "".join(tokens.segment(piece.raw) for piece in self.pieces)


def compose(turn: Turn, sampling: Sampling, tokens: Tokens, prompt: str, seed: int) -> Answer:
    """The answer that says `turn` within `sampling`'s bounds."""
    pieces: list[Piece] = []
    if sampling.thinking:
        thought = _say("reasoning", turn.thinking, sampling, tokens, f"think {prompt}", seed)
        pieces += thought[: sampling.thinking_budget]
        pieces.append(Piece("silent", "", END_THINK))
    calls, forced = chosen(turn, sampling)
    spoken = [] if forced else _say("text", turn.text, sampling, tokens, prompt, seed)
    called = [piece for index, call in enumerate(calls) for piece in _call(call, index, sampling, tokens)]
    wanted = sampling.max_tokens if sampling.ignore_eos else min(sampling.min_tokens, sampling.max_tokens)
    short = wanted - len(pieces) - len(spoken) - len(called)
    if short > 0:
        spoken += _say("text", short, sampling, tokens, f"more {prompt}", seed)
    pieces += [*spoken, *called]
    if not sampling.ignore_eos:
        pieces.append(Piece("silent", "", END))
    finish: Finish = "stop"
    if len(pieces) > sampling.max_tokens or sampling.ignore_eos:
        pieces, finish = pieces[: sampling.max_tokens], "length"
    elif any(piece.kind == "tool" for piece in pieces) and not sampling.choice.startswith("named:"):
        finish = "tool_calls"
    return _stopped(Answer(tuple(pieces), finish), sampling)


def chosen(turn: Turn, sampling: Sampling) -> tuple[tuple[Call, ...], bool]:
    """The calls of this answer, and whether they were forced by tool_choice (then nothing is said beside them)."""
    calls = turn.tools
    if sampling.tools is None:
        return calls, False
    if sampling.choice == "none":
        return (), False
    forced = sampling.choice != "auto"
    if sampling.choice.startswith("named:"):
        name = sampling.choice.removeprefix("named:")
        calls = tuple(call for call in calls if call.name == name)[:1] or (_least(name, sampling.tools),)
    elif forced and not calls:
        calls = (_least(next(iter(sampling.tools)), sampling.tools),)
    return (calls if sampling.parallel else calls[:1]), forced


def _least(name: str, tools: Mapping[str, Any]) -> Call:
    return Call(name, canonical(minimal(tools[name])))


def _say(
    kind: Literal["reasoning", "text"], what: int | str, sampling: Sampling, tokens: Tokens, prompt: str, seed: int
) -> list[Piece]:
    if isinstance(what, int):
        what = filler(prompt, seed, min(what, sampling.max_tokens) * tokens.width)
    return [Piece(kind, text, text) for text in tokens.pieces(what)]


def _call(call: Call, index: int, sampling: Sampling, tokens: Tokens) -> list[Piece]:
    head, arguments, tail = tokens.call(call.name, call.arguments)
    if sampling.tools is None:  # no tools in the request: vLLM parses no calls, and a client sees the text
        return [Piece("text", text, text) for text in tokens.pieces(f"<tool_call>{head}{arguments}{tail}</tool_call>")]
    opening = [Piece("silent", "", raw, index) for raw in tokens.pieces(head)]
    opening[-1] = replace(opening[-1], kind="tool", text=call.name)
    return [
        Piece("silent", "", TOOL_CALL, index),
        *opening,
        *(Piece("arguments", text, text, index) for text in tokens.pieces(arguments)),
        *(Piece("silent", "", raw, index) for raw in tokens.pieces(tail)),
        Piece("silent", "", END_TOOL_CALL, index),
    ]


def _stopped(answer: Answer, sampling: Sampling) -> Answer:
    """Ends the answer at the first stop sequence that is complete; its last token is the one that completed it."""
    if not sampling.stop:
        return answer
    texts = ["" if piece.kind == "tool" else piece.text for piece in answer.pieces]
    hit = _first_stop("".join(texts), sampling.stop)
    if hit is None:
        return answer
    begin, stop = hit
    end = begin + len(stop)
    cut = end if sampling.include_stop else begin
    kept: list[Piece] = []
    for piece, text, after in zip(answer.pieces, texts, accumulate(map(len, texts)), strict=True):
        before = after - len(text)
        kept.append(replace(piece, text=text[: max(0, cut - before)]) if after > cut and text else piece)
        if after >= end:
            break
    return Answer(tuple(kept), "stop", stop)


def _first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    found = [(at + len(stop), at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not found:
        return None
    _end, at, stop = min(found, key=lambda hit: hit[0])
    return at, stop
