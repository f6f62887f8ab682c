"""Where a configuration is published from: a pod's store, the pod that watches it, and this machine's code for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bootstrap.report import Status
from control.draft import Code, code_of, text_of
from control.errors import PasserelleError, Refused, Unreachable, UsageError
from control.hub import CODE, CONFIG, HubStore, Published, open_store, parse_hf
from control.publish import Publisher
from control.reach import age_words

if TYPE_CHECKING:
    from control.models import Pod
    from control.reach import Reach

FRESH_S = 10.0
"""What is older is remembered, not answered."""

HISTORY_MOST = 500
LOOKED_BACK = 50


@dataclass(frozen=True, slots=True)
class Desk:
    """One store, and the pod that watches it."""

    store: HubStore
    publisher: Publisher
    first: bool
    """Nothing is published there yet."""

    def code(self, wanted: bool) -> Code | None:
        """This version's code when it is asked for, or when a rented pod would have none."""
        if not wanted and not (self.first and self.store.url.startswith("hf://")):
            return None
        from control import zipapp

        made = zipapp.build()
        return Code(made.sha256, made.text)


@dataclass(frozen=True, slots=True)
class ReachedPod:
    """See control.publish.RunningPod."""

    reach: Reach

    async def status(self) -> Status:
        answer = await self.reach.status()
        if answer.age_s > FRESH_S:
            raise Unreachable(f"the pod does not answer; its last word is {age_words(answer.age_s).removeprefix(', ')}")
        return answer.value

    async def look(self) -> None:
        await self.reach.ask({"cmd": "apply"})


@asynccontextmanager
async def open_desk(named: str | None, hub: str | None) -> AsyncIterator[Desk]:
    """The desk of the pod that was named, or of the only one; `hub` names another store than the pod's own."""
    from control.keys import HUGGING_FACE, Keys
    from control.providers import ENDED, find_even_unheard
    from control.ways import open_ways

    provider, pod = await find_even_unheard(named, stopped_too=True)
    tokens = await provider.tokens(pod.id)
    async with (
        open_store(hub or store_of(pod), Keys().get(HUGGING_FACE)) as store,
        await open_ways(provider, pod) as ways,
    ):
        there = await store.read((CONFIG,))
        running = None if pod.state in ENDED else ReachedPod(ways.reach)
        mirror = None if pod.provider == "local" else log_mirror()
        publisher = Publisher(store, tokens.operator, running, mirror=mirror)
        yield Desk(store, publisher, CONFIG not in there.files)


def log_mirror() -> str | None:
    """Where rented pods copy their log to, as `passerelle init` set it; a folder of this machine they do not reach."""
    from control import settings

    url = settings.load().log_mirror
    return url if url is not None and parse_hf(url) is not None else None


def store_of(pod: Pod) -> str:
    """Where this pod looks for its configuration. Raises Refused."""
    from control import settings
    from control.local.store import Store as LocalStore
    from control.runpod.store import Store as RentedStore
    from control.store import home

    if pod.provider == "local":
        return f"dir://{LocalStore(home()).hub(pod.id)}"
    record = RentedStore(home()).known(pod.id)
    url = (record.hub if record is not None else None) or settings.load().hub
    if url is None:
        raise Refused(
            f"it is not known where pod {pod.id} looks for its configuration",
            "name the store: --hub hf://datasets/owner/name, or once and for all: passerelle init",
        )
    return url


async def publish_first(url: str, text: str, operator_token: str) -> None:
    """Text and code for a pod that is yet to be made, in its own store, which is made if need be."""
    from control import zipapp
    from control.keys import HUGGING_FACE, Keys

    made = zipapp.build()
    async with open_store(url, Keys().get(HUGGING_FACE)) as store:
        await store.make()
        publisher = Publisher(store, operator_token, None, mirror=log_mirror())
        outlook = await publisher.look(text, CONFIG, Code(made.sha256, made.text))
        await publisher.send(outlook.draft)


async def published_text(named: str) -> str | None:
    """What is published to that pod; None where its store does not say."""
    from control.keys import HUGGING_FACE, Keys
    from control.providers import find_even_unheard

    try:
        _, pod = await find_even_unheard(named)
        async with open_store(store_of(pod), Keys().get(HUGGING_FACE)) as store:
            return text_of(await store.read((CONFIG,)), store.url)
    except PasserelleError:
        return None


async def older(store: HubStore, version: str | None) -> str:
    """The whole id of the version that is meant; without a name, of the newest whose pod.toml is another than now.

    Raises Refused when there is none, UsageError for the beginning of several ids.
    """
    found = [one.commit for one in await store.history(HISTORY_MOST)]
    if version is None:
        return await _before_the_newest(store, found)
    matches = [commit for commit in found if commit.partition("-")[0] == version]
    matches = matches or [commit for commit in found if commit.startswith(version)]
    if len(matches) > 1:
        raise UsageError(f"{version!r} begins {len(matches)} versions", "give more of it")
    return matches[0] if matches else version


async def _before_the_newest(store: HubStore, commits: list[str]) -> str:
    """Other commits of the same repository leave this pod's file as it is: they are no version of it."""
    now = (await store.read((CONFIG,))).files.get(CONFIG)
    for commit in commits[1 : 1 + LOOKED_BACK]:
        body = (await store.read((CONFIG,), commit)).files.get(CONFIG)
        if body is not None and body != now:
            return commit
    raise Refused(f"{store.url} has no version before the newest", "see them: passerelle config history")


def code_in(there: Published) -> Code | None:
    """The code that was published with a version."""
    sha256, text = code_of(there.files.get(CONFIG)), there.files.get(CODE)
    return Code(sha256, text) if sha256 is not None and text is not None else None
