"""Publishing a pod's configuration: read, draft, wait for the right moment, commit, see it applied or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bootstrap.report import Applied, Status
from control import draft as drafts
from control.clock import Clock
from control.draft import Code, Draft
from control.errors import PasserelleError, Refused, Unreachable
from control.hub import CODE, CONFIG, SIGNATURE, Conflict, HubStore, Published
from control.outlook import Outlook

FILES = (CONFIG, SIGNATURE, CODE)
HISTORY_SEARCHED = 30
LOOK_S = 1.0
TRIES = 5
REFUSAL_AFTER_S = 12.0
"""A refusal that was there before the publish is taken for its answer only after this long: two looks of the pod."""

Say = Callable[[str], None]


class RunningPod(Protocol):
    """What publishing needs of the pod that watches the store."""

    async def status(self) -> Status:
        """Raises Unreachable."""
        ...

    async def look(self) -> None:
        """Have it look now instead of in up to 5 s. Raises Unreachable; Refused with why it took nothing."""
        ...


class Overtaken(Conflict):
    """Somebody else published meanwhile. `diff`: what they changed."""

    def __init__(self, message: str, remedy: str, diff: tuple[str, ...]) -> None:
        super().__init__(message, remedy)
        self.diff = diff


class Publisher:
    """One store, and the pod that watches it, if there is one."""

    def __init__(
        self,
        store: HubStore,
        operator_token: str,
        pod: RunningPod | None,
        clock: Clock | None = None,
        mirror: str | None = None,
    ) -> None:
        """`mirror`: where the pod's log goes if its configuration names no place."""
        self._store, self._token, self._pod, self._clock = store, operator_token, pod, clock or Clock()
        self._mirror = mirror

    async def look(self, text: str, name: str, code: Code | None, made_from: Published | None = None) -> Outlook:
        """What publishing `text` would change; nothing is changed by looking.

        `made_from`: what was published when the text was made, where that must be so still. Raises ConfigRefused, and
        Overtaken with what others published since.
        """
        there = await self._store.read(FILES)
        if made_from is not None and made_from.files.get(CONFIG) != there.files.get(CONFIG):
            raise self._overtaken(made_from, there)
        status, why = await self._status()
        running_serial = (status.serial or 0) if status else 0
        draft = drafts.draft(text, name, there, self._token, code, running_serial, self._mirror)
        running = await self._running(there, status)
        return Outlook(draft, drafts.plan(running, draft.wanted), status, why)

    async def idle(self, say: Say) -> None:
        """Return once two looks in a row saw no stream: the pod's count may be half a second old.

        Raises Unreachable when the pod does not say.
        """
        said, quiet = -1, 0
        while quiet < 2:
            live = await self._live()
            quiet = quiet + 1 if live == 0 else 0
            if live not in (0, said):
                say(f"waiting for {live} stream{'s' if live > 1 else ''} in flight")
                said = live
            if quiet < 2:
                await self._clock.sleep(LOOK_S)

    async def _live(self) -> int:
        if self._pod is None:
            raise Unreachable("no pod runs that could say when it is idle", "publish without --when-idle")
        live = (await self._pod.status()).live
        if live is None:
            raise Unreachable("the pod does not say how many streams are in flight", "publish without --when-idle")
        return live

    async def send(self, draft: Draft) -> str:
        """The new commit. Raises Overtaken with the other's change, and what a store raises.

        A commit that touched none of this pod's files (another pod's folder, a log) overtakes nobody.
        """
        there = draft.there
        for attempt in range(1, TRIES + 1):
            try:
                return await self._store.publish(draft.files, there.commit, draft.title)
            except Conflict as conflict:
                there = await self._store.read(FILES)
                if there.files != {name: draft.there.files[name] for name in FILES if name in draft.there.files}:
                    raise self._overtaken(draft.there, there) from conflict
                if attempt == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    async def applied(self, draft: Draft, before: Status | None, within_s: float, say: Say) -> Applied:
        """Wait until the pod says that the serial is in force. Raises Refused with its reason, Unreachable."""
        if self._pod is None:
            raise Unreachable("no pod runs that could apply it", "it takes it when it starts")
        started = self._clock.now()
        await self._nudge()
        last = "it has not looked yet"
        while (waited := self._clock.now() - started) < within_s:
            status, why = await self._status()
            if status is not None:
                if status.serial == draft.serial and status.applied is not None:
                    return status.applied
                if status.config_error and self._is_new(status, before, waited):
                    raise Refused(f"published, and the pod does not take it: {status.config_error}", _remedy(status))
                last = status.config_error or f"serial {status.serial} is in force"
            say(why or last)
            await self._clock.sleep(LOOK_S)
        raise Unreachable(
            f"published as serial {draft.serial}; the pod has not said within {within_s:.0f} s that it is in force"
            f" ({why or last})",
            "look again: passerelle status; which way leads to the pod: passerelle link",
        )

    def _is_new(self, status: Status, before: Status | None, waited: float) -> bool:
        return before is None or status.config_error != before.config_error or waited > REFUSAL_AFTER_S

    async def _nudge(self) -> None:
        """A courtesy: it looks by itself every 5 s, and says in its report what came of it."""
        try:
            if self._pod is not None:
                await self._pod.look()
        except PasserelleError:
            return

    async def _status(self) -> tuple[Status | None, str]:
        if self._pod is None:
            return None, "no pod runs"
        try:
            return await self._pod.status(), ""
        except PasserelleError as error:
            return None, error.message

    async def _running(self, there: Published, status: Status | None) -> bytes | None:
        """The text that the pod runs: what is published, or the older version whose serial it reports."""
        published = there.files.get(CONFIG)
        if status is None or status.serial is None or status.serial == drafts.serial_of(published):
            return published
        for version in await self._store.history(HISTORY_SEARCHED):
            body = (await self._store.read((CONFIG,), version.commit)).files.get(CONFIG)
            if drafts.serial_of(body) == status.serial:
                return body
        return None

    def _overtaken(self, before: Published, now: Published) -> Overtaken:
        was, there = (one.files.get(CONFIG, b"").decode("utf-8", "replace") for one in (before, now))
        theirs = drafts.difference(was, there, "as it was read", "as it is now")
        why = f"{self._store.url}: somebody else published since it was read"
        return Overtaken(why, "take their change in, and publish again", theirs)


def _remedy(status: Status) -> str:
    if "needs a new pod" in (status.config_error or ""):
        return "its code comes into force at its next start: passerelle pod stop, then passerelle pod start"
    return "mend it and publish again, or go back: passerelle config rollback"
