"""The ways themselves, and which of them a pod has. Each is contacted only when it is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from control import mirror, supervisor
from control.ctl import Request
from control.errors import PasserelleError, Unreachable
from control.hub import HubStore
from control.lastseen import LastSeen
from control.models import Pod, PodId, SshAddress, Target
from control.provider import Provider
from control.reach import Passed, Reach, Said, Via, Way, needs_the_pod

if TYPE_CHECKING:
    from control.hostkeys import HostKeys
    from control.podlink import PodLink
    from control.settings import Identity
    from control.ssh import PodShell

NO_SSH = "the pod has no SSH address: it was created without the port 22/tcp, or does not run"
NO_MIRROR = "no log mirror is set up (passerelle init --log-mirror hf://datasets/owner/name)"


@dataclass(slots=True)
class Bridge:
    """HTTPS to the pod's bridge, which asks its supervisor. Opened at the first question, closed with the ways."""

    target: Target
    stack: AsyncExitStack
    link: PodLink | None = None
    via: Via = Via.BRIDGE

    async def ask(self, request: Request) -> Said:
        from control.podlink import PodLink

        if self.link is None:
            self.link = await self.stack.enter_async_context(PodLink(self.target))
        return Said(await self.link.ask(request))


@dataclass(slots=True)
class Socket:
    """The supervisor's socket, of a pod on this machine."""

    path: Path
    via: Via = Via.SOCKET

    async def ask(self, request: Request) -> Said:
        _not_for_the_supervisor(request)
        return Said(await supervisor.ask(self.path, request))


@dataclass(slots=True)
class Ssh:
    """The supervisor's socket, through the pod's sshd. One connection, kept while the ways are."""

    pod_id: PodId
    address: SshAddress
    pins: HostKeys
    identity: Identity
    stack: AsyncExitStack
    socket: str | None = None
    """Where bootstrap listens in the pod; None tries the usual places."""
    shell: PodShell | None = None
    via: Via = Via.SSH

    async def ask(self, request: Request) -> Said:
        from control.ssh import PodShell

        _not_for_the_supervisor(request)
        if self.shell is None:
            shell = PodShell(self.pod_id, self.address, self.pins, self.identity, socket=self.socket)
            self.shell = await self.stack.enter_async_context(shell)
        try:
            return Said(await self.shell.ask(request))
        except Unreachable:
            self.shell = None
            raise


@dataclass(slots=True)
class Hub:
    """The log's mirror in a store of the Hub."""

    pod_id: PodId
    store: Callable[[], HubStore]
    via: Via = Via.HUB

    async def ask(self, request: Request) -> Said:
        needs_the_pod(request)
        name = mirror.name_of(self.pod_id)
        try:
            async with self.store() as store:
                text = (await store.read((name,))).files.get(name)
        except PasserelleError as error:
            # The Hub's refusal is not the pod's.
            raise Unreachable(error.message, error.remedy) from error
        if text is None:
            raise Unreachable(f"there is no {name} in {store.url}")
        return _from_log(text, request)


@dataclass(slots=True)
class File:
    """The log of an embedded pod, or a mirror that is a folder: a file on this machine."""

    path: Path
    via: Via = Via.FILE

    async def ask(self, request: Request) -> Said:
        needs_the_pod(request)
        try:
            return _from_log(await asyncio.to_thread(self.path.read_bytes), request)
        except OSError as error:
            raise Unreachable(f"{self.path}: {error.strerror}") from error


@dataclass(slots=True)
class Memory:
    """The status that was last seen from this machine."""

    last: LastSeen
    via: Via = Via.MEMORY

    async def ask(self, request: Request) -> Said:
        needs_the_pod(request)
        if request["cmd"] != "status":
            raise Unreachable("it holds the last status, and no log")
        kept = await asyncio.to_thread(self.last.read)
        if kept is None:
            raise Unreachable("it was never seen from here")
        status, at = kept
        return Said({"status": status}, max(0.0, time.time() - at))


@dataclass(slots=True)
class Noted:
    """A way whose status is remembered."""

    way: Way
    last: LastSeen

    @property
    def via(self) -> Via:
        return self.way.via

    async def ask(self, request: Request) -> Said:
        said = await self.way.ask(request)
        if request["cmd"] == "status" and isinstance(status := said.response.get("status"), dict):
            await asyncio.to_thread(self.last.see, status, time.time())
        return said


class Ways:
    """Every way to one pod, as an async context that gives its Reach."""

    def __init__(
        self,
        pod: Pod,
        operator_token: str,
        pins: HostKeys,
        identity: Identity,
        *,
        socket: Path | None = None,
        log_file: Path | None = None,
        last: LastSeen | None = None,
        store: Callable[[], HubStore] | None = None,
    ) -> None:
        self._stack = AsyncExitStack()
        ways: list[Way] = []
        missing: list[Passed] = []
        if pod.url is None:
            missing.append(Passed(Via.BRIDGE, "the pod has no address"))
        else:
            ways.append(Bridge(Target(pod.url, operator_token), self._stack))
        if socket is not None:
            ways.append(Socket(socket))
        elif pod.ssh is not None:
            ways.append(Ssh(pod.id, pod.ssh, pins, identity, self._stack))
        else:
            missing.append(Passed(Via.SSH, NO_SSH))
        if last is not None:
            ways = [*(Noted(way, last) for way in ways), Memory(last)]
        if log_file is not None:
            ways.append(File(log_file))
        elif store is not None:
            ways.append(Hub(pod.id, store))
        else:
            missing.append(Passed(Via.HUB, NO_MIRROR))
        self.reach = Reach(pod.id, ways, missing)
        self.missing = tuple(missing)

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)


async def open_ways(provider: Provider, pod: Pod) -> Ways:
    """The ways that this pod has, by what its provider and our settings say. Raises Refused without its tokens."""
    from control import settings
    from control.hostkeys import HostKeys
    from control.hub import open_store, parse_dir
    from control.keys import HUGGING_FACE, Keys
    from control.local.store import Store
    from control.store import home

    tokens = await provider.tokens(pod.id)
    local = Store(home()) if provider.name == "local" else None
    mine = settings.load()
    kept = mine.log_mirror
    folder = parse_dir(kept) if kept else None
    log_file = local.state(pod.id) / "logs" / "pod.log" if local else folder and Path(folder) / mirror.name_of(pod.id)
    return Ways(
        pod,
        tokens.operator,
        HostKeys(home()),
        mine.identity(),
        socket=local.socket(pod.id) if local else None,
        log_file=log_file or None,
        last=LastSeen(home(), pod.id),
        store=(lambda: open_store(kept, Keys().get(HUGGING_FACE))) if kept else None,
    )


def _not_for_the_supervisor(request: Request) -> None:
    if request["cmd"] == "drain":
        raise Unreachable("only the bridge can drain itself")


def _from_log(text: bytes, request: Request) -> Said:
    """The answer that a log's text can give. Raises Unreachable for anything but a tail."""
    if request["cmd"] != "tail":
        raise Unreachable("a log does not say it")
    lines = mirror.lines(text)
    written = mirror.newest(lines)
    if written is None:
        raise Unreachable("the log is empty")
    after = request.get("after")
    wanted = lines[-request["limit"] :] if after is None else [line for line in lines if line.seq > after]
    page = {"log": msgspec.to_builtins(wanted), "log_next": lines[-1].seq}
    return Said(page, max(0.0, time.time() - written))
