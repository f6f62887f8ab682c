"""A HubStore on the Hugging Face Hub: the deadlines that its library lacks, by a child process that can be ended.

huggingface_hub sleeps as long as a 429 tells it to (an hour) and has no timeout of its own. In a thread such a call
could not be ended, and might still commit when nobody expects it any more.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from control.errors import PasserelleError, Refused, Unreachable
from control.hub import Conflict, HfAddress, NoSuchStore, NoSuchVersion, Published, RateLimited, Version

READ_WITHIN_S = 30.0
PUBLISH_WITHIN_S = 60.0
ANSWER_LIMIT = 64_000_000
"""Bytes of one answer line."""

NOT_FOR_THE_CHILD = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DEBUG")
"""The first two would make every call fail; the last prints bodies."""
FOR_THE_CHILD = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_XET": "1",
}


class HfStore:
    """See control.hub.HubStore. One child, started at the first call, serves all of them."""

    def __init__(self, address: HfAddress, token: str | None, environ: Mapping[str, str] = os.environ) -> None:
        self._address, self._token, self._environ = address, token, environ
        self.url = address.url
        self.read_within_s, self.publish_within_s = READ_WITHIN_S, PUBLISH_WITHIN_S
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def read(self, paths: tuple[str, ...], commit: str | None = None) -> Published:
        names = {self._address.path(path): path for path in paths}
        asked = {"op": "read", "paths": list(names), "revision": commit or "main"}
        answer = await self._ask(asked, self.read_within_s)
        files = {names[path]: base64.b64decode(data) for path, data in answer["files"].items()}
        return Published(answer["commit"], files)

    async def publish(self, files: Mapping[str, bytes], parent: str, title: str) -> str:
        encoded = {self._address.path(path): base64.b64encode(data).decode() for path, data in files.items()}
        try:
            asked = {"op": "publish", "files": encoded, "parent": parent, "title": self._mine(title)}
            answer = await self._ask(asked, self.publish_within_s)
            return str(answer["commit"])
        except RateLimited:
            raise
        except Unreachable as lost:
            return await self._look_whether_it_was_done(files, parent, lost)

    async def _look_whether_it_was_done(self, files: Mapping[str, bytes], parent: str, lost: Unreachable) -> str:
        """An error after the request was sent says nothing of the commit: the Hub answered 500 to some that it made."""
        found = await self.read(tuple(files))
        if found.commit != parent and found.files == files:
            return found.commit
        raise Unreachable(f"not published: {lost.message}", "publish again; nothing is published twice") from lost

    async def history(self, limit: int) -> tuple[Version, ...]:
        """In a folder, those that were published to this folder: their titles begin with its name."""
        asked = {"op": "history", "limit": limit, "beginning": self._mine("")}
        rows = (await self._ask(asked, self.read_within_s))["versions"]
        return tuple(msgspec.convert(row, Version) for row in rows)

    def _mine(self, title: str) -> str:
        return f"{self._address.folder}: {title}" if self._address.folder else title

    async def make(self) -> None:
        await self._ask({"op": "make"}, self.read_within_s)

    async def _ask(self, request: dict[str, Any], within_s: float) -> dict[str, Any]:
        line = msgspec.json.encode(request | {"kind": self._address.kind, "repo": self._address.repo}) + b"\n"
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(within_s):
                    said = await self._exchange(line)
            except TimeoutError as error:
                await self._end()
                raise Unreachable(f"the Hub has not answered about {self.url} within {within_s:.0f} s") from error
            except BaseException:
                await self._end()
                raise
        answer: dict[str, Any] = msgspec.json.decode(said)
        if answer["ok"]:
            return answer
        raise self._error(answer)

    async def _exchange(self, line: bytes) -> bytes:
        child = self._child or await self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(line)
            await child.stdin.drain()
            said = await child.stdout.readline()
        except (OSError, ValueError) as error:
            raise Unreachable(f"the process that speaks to the Hub is lost: {error}") from error
        if not said.endswith(b"\n"):
            raise Unreachable("the process that speaks to the Hub has ended")
        return said

    async def _start(self) -> asyncio.subprocess.Process:
        env = {name: value for name, value in self._environ.items() if name not in NOT_FOR_THE_CHILD} | FOR_THE_CHILD
        env |= {"HF_TOKEN": self._token} if self._token else {}
        pipe, devnull = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "control.hub_worker"),
            env=env,
            stdin=pipe,
            stdout=pipe,
            stderr=devnull,
            limit=ANSWER_LIMIT,
        )
        return self._child

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            child.kill()
        if child is not None:
            await child.communicate()

    def _error(self, answer: dict[str, Any]) -> PasserelleError:
        said = str(answer["message"])
        match answer["error"]:
            case "conflict":
                return Conflict(f"{self.url} has changed since it was read", "publish again to see the other change")
            case "no version":
                return NoSuchVersion(f"{self.url}: {said}", "see them: passerelle config history")
            case "no store":
                return NoSuchStore(f"{self.url} does not exist, or this token may not see it", answer["remedy"])
            case "refused":
                return Refused(f"{self.url}: {said}", answer["remedy"])
            case "rate limited":
                return RateLimited(f"the Hub asks to wait: {said}", "try again then", answer["retry_s"])
            case _:
                return Unreachable(
                    f"the Hub does not answer about {self.url}: {said}",
                    "is there a network? https://status.huggingface.co says whether it is the Hub",
                )
