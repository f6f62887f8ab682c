"""The simulated engine's tokens: text in groups of a fixed number of characters, and the chat template (pure).

Every segment (a role, a content, a tool call's head, its arguments …) is padded to whole tokens, and special marks are
one token each. So what a conversation renders to only ever grows at its end, and what the engine generates is, token
for token, what the next turn's prompt says that it said: a growing conversation hits its own prefix, as in vLLM.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

PAD = "\0"
# One private-use character each: a special token of a real tokenizer, which no plain text contains.
TURN, END, THINK, END_THINK, TOOL_CALL, END_TOOL_CALL, IMAGE = (chr(0xE000 + n) for n in range(7))
IMAGE_TOKENS = 1024
VOCABULARY = 151_936


@dataclass(frozen=True, slots=True)
class Tokens:
    """A tokenizer of `width` characters per token, at least 1."""

    width: int

    def segment(self, text: str) -> str:
        """`text` padded to whole tokens."""
        short = -len(text) % self.width
        return text + PAD * short if short else text

    def pieces(self, text: str) -> Iterator[str]:
        """`text` token by token, unpadded."""
        for start in range(0, len(text), self.width):
            yield text[start : start + self.width]

    def count(self, rendered: str) -> int:
        return -(-len(rendered) // self.width)

    def ids(self, rendered: str) -> list[int]:
        """Token ids: stable across processes, and the same for the same group of characters."""
        return [
            zlib.crc32(piece.rstrip(PAD).encode("utf-8", "surrogatepass")) % VOCABULARY
            for piece in self.pieces(rendered)
        ]

    def image(self, url: str) -> str:
        """An image takes a fixed number of tokens, the same ones for the same image."""
        digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        length = IMAGE_TOKENS * self.width
        return self.segment(IMAGE) + (digest * (length // len(digest) + 1))[: length - self.width]

    def call(self, name: str, arguments: str) -> tuple[str, str, str]:
        """A tool call as Hermes models write it: head, arguments, tail, without the special marks around them."""
        return f'\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": ', arguments, "}\n"

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], *, thinking: bool) -> str:
        """The whole conversation, ready for the assistant's next token."""
        parts: list[str] = []
        if tools:
            parts += self._turn("tools", [self.segment(json.dumps(tools, ensure_ascii=False))])
        for message in messages:
            parts += self._message(message)
        parts += self._opening("assistant")
        parts.append(self.segment(THINK))
        if not thinking:
            parts.append(self.segment(END_THINK))
        return "".join(parts)

    def _message(self, message: Mapping[str, Any]) -> list[str]:
        role = str(message.get("role"))
        if role != "assistant":
            return self._turn(role, self._content(message.get("content")))
        reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
        body = [self.segment(THINK), self.segment(str(reasoning)), self.segment(END_THINK)]
        body += self._content(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            parts = self.call(str(function.get("name")), canonical(function.get("arguments")))
            body.append(self.segment(TOOL_CALL))
            body += [self.segment(part) for part in parts]
            body.append(self.segment(END_TOOL_CALL))
        return self._turn(role, body)

    def _content(self, content: Any) -> list[str]:
        if content is None:
            return []
        if isinstance(content, str):
            return [self.segment(content)]
        text: list[str] = []
        images: list[str] = []
        for part in content:
            if part.get("type") == "image_url":
                images.append(self.image(image_url(part)))
            else:
                text.append(str(part.get("text") or ""))
        return [*images, self.segment("".join(text))]

    def _turn(self, role: str, body: list[str]) -> list[str]:
        return [*self._opening(role), *body, self.segment(END)]

    def _opening(self, role: str) -> list[str]:
        return [self.segment(TURN), self.segment(f"{role}\n")]


def image_url(part: Mapping[str, Any]) -> str:
    """The URL of an image part, in either of the shapes that vLLM takes."""
    value = part.get("image_url")
    return str(value.get("url")) if isinstance(value, Mapping) else str(value)


def canonical(arguments: Any) -> str:
    """A tool call's arguments as the template writes them: parsed and written again, as Hermes templates do."""
    if not isinstance(arguments, str):
        return json.dumps(arguments or {}, ensure_ascii=False)
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments
