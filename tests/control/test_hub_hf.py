"""The Hub as a store, by the real huggingface_hub in its child process, against the double."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import psutil
import pytest

from control.errors import Refused, Unreachable
from control.hub import Conflict, HfAddress, HubStore, NoSuchStore, Published, RateLimited
from control.hub_hf import HfStore
from tests.control.hub_contract import CONTRACT
from tests.doubles.hub import HubDouble

pytestmark = pytest.mark.process
REPO = "datasets/alice/pods"


def open_on(hub: HubDouble, token: str | None = "hf_writer", folder: str = "") -> HfStore:
    environ = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "1"}
    environ.pop("HF_TOKEN", None)
    return HfStore(HfAddress("dataset", "alice/pods", folder), token, environ)


@pytest.fixture
async def store(hub: HubDouble) -> AsyncIterator[HfStore]:
    async with open_on(hub) as store:
        yield store


@pytest.mark.parametrize("promise", CONTRACT)
async def test_the_contract(promise: Callable[[HubStore], Awaitable[None]], store: HfStore) -> None:
    await promise(store)


async def test_one_read_is_of_one_commit_whatever_is_published_meanwhile(hub: HubDouble, store: HfStore) -> None:
    old = hub.seed(REPO, {"pod.toml": b"1", "pod.toml.sig": b"s1"})
    await store.read(("pod.toml",))
    hub.holdings.lag_reads = 1
    hub.seed(REPO, {"pod.toml": b"2", "pod.toml.sig": b"s2"})
    found = await store.read(("pod.toml", "pod.toml.sig"))
    assert found == Published(old, {"pod.toml": b"1", "pod.toml.sig": b"s1"})


async def test_a_folder_of_a_repository(hub: HubDouble) -> None:
    hub.seed(REPO, {"pod.toml": b"of the root"})
    async with open_on(hub, folder="a40") as store:
        found = await store.read(("pod.toml",))
        assert found.files == {}
        await store.publish({"pod.toml": b"of a40"}, found.commit, "serial 1")
        assert (await store.read(("pod.toml",))).files == {"pod.toml": b"of a40"}
    assert hub.files(REPO) == {"pod.toml": b"of the root", "a40/pod.toml": b"of a40"}


async def test_the_history_of_a_folder_is_its_own(hub: HubDouble) -> None:
    hub.seed(REPO, {}, title="log of a40")
    async with open_on(hub, folder="a40") as one, open_on(hub, folder="h200") as other:
        for store, body in ((one, b"1"), (other, b"2"), (one, b"3")):
            await store.publish({"pod.toml": body}, (await store.read(())).commit, f"serial {body.decode()}")
        assert [version.title for version in await one.history(9)] == ["serial 3", "serial 1"]
        assert [version.title for version in await other.history(9)] == ["serial 2"]
    assert hub.titles(REPO)[0] == "a40: serial 3"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "there is no token"),
        ("hf_wrong", "does not know this token"),
        ("hf_writer", 'the token is good (of "alice")'),
    ],
)
async def test_a_missing_store_and_a_wrong_token_are_told_apart(hub: HubDouble, token: str | None, words: str) -> None:
    async with open_on(hub, token) as store:
        with pytest.raises(NoSuchStore) as caught:
            await store.read(("pod.toml",))
    assert words in caught.value.remedy
    assert "hf_" not in caught.value.message + caught.value.remedy


async def test_a_read_token_is_refused_with_what_it_needs(hub: HubDouble) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    async with open_on(hub, "hf_reader") as store:
        with pytest.raises(Refused, match=r"403.*write token") as caught:
            await store.publish({"pod.toml": b"2"}, commit, "serial 2")
    assert "with write" in caught.value.remedy


async def test_the_commit_quota_is_said_at_once(hub: HubDouble, store: HfStore) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add("commit_quota", "POST .*/commit/")
    with pytest.raises(RateLimited, match=r"128 per hour") as caught:
        await store.publish({"pod.toml": b"2"}, commit, "serial 2")
    assert caught.value.retry_s == 3600


async def test_an_hour_that_the_library_would_sleep_is_said_at_once(hub: HubDouble, store: HfStore) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add("commit_quota", "POST .*/preupload/")
    with pytest.raises(RateLimited):
        await store.publish({"pod.toml": b"2"}, commit, "serial 2")
    assert hub.files(REPO) == {"pod.toml": b"1"}


async def test_a_full_window_says_for_how_long(hub: HubDouble, store: HfStore) -> None:
    hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add("api_window", "GET /api/", seconds=55)
    with pytest.raises(RateLimited) as caught:
        await store.read(("pod.toml",))
    assert caught.value.retry_s == 55


async def test_an_error_after_the_commit_is_looked_into(hub: HubDouble, store: HfStore) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add("committed_but", "POST .*/commit/", status=500)
    assert await store.publish({"pod.toml": b"2"}, commit, "serial 2") == hub.head(REPO)
    assert hub.titles(REPO)[:2] == ["serial 2", "seed"]


async def test_an_error_without_the_commit_is_one(hub: HubDouble, store: HfStore) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add("status", "POST .*/commit/", status=503)
    with pytest.raises(Unreachable, match="not published"):
        await store.publish({"pod.toml": b"2"}, commit, "serial 2")
    assert await store.publish({"pod.toml": b"2"}, commit, "serial 2") == hub.head(REPO)


async def test_a_hub_that_never_answers_ends_at_our_deadline_and_its_child_with_it(hub: HubDouble) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    async with open_on(hub) as store:
        await store.read(("pod.toml",))
        child = store._child
        assert child is not None
        store.publish_within_s = 0.3
        hub.faults.add("hang", "POST .*/commit/")
        with pytest.raises(Unreachable, match="not published: the Hub has not answered"):
            await store.publish({"pod.toml": b"2"}, commit, "serial 2")
        assert not psutil.pid_exists(child.pid)
        assert (await store.read(("pod.toml",))).files == {"pod.toml": b"1"}


async def test_nothing_listens(hub: HubDouble) -> None:
    environ = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    async with HfStore(HfAddress("dataset", "alice/pods"), "hf_writer", environ) as store:
        with pytest.raises(Unreachable, match="does not answer"):
            await store.read(("pod.toml",))


@pytest.mark.parametrize("kind", ["garbage", "reset", "truncate"])
async def test_broken_answers_are_unreachable_not_a_traceback(hub: HubDouble, store: HfStore, kind: str) -> None:
    hub.seed(REPO, {"pod.toml": b"1"})
    hub.faults.add(kind, "GET /api/datasets")  # type: ignore[arg-type]
    with pytest.raises((Unreachable, Refused)):
        await store.read(("pod.toml",))
    assert (await store.read(("pod.toml",))).files == {"pod.toml": b"1"}


async def test_a_caller_that_gives_up_leaves_no_half_read_answer(hub: HubDouble, store: HfStore) -> None:
    hub.seed(REPO, {"pod.toml": b"1"})
    await store.read(("pod.toml",))
    hub.faults.add("hang", "GET /api/datasets")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await store.read(("pod.toml",))
    assert (await store.read(("pod.toml",))).files == {"pod.toml": b"1"}


async def test_two_publishers(hub: HubDouble, store: HfStore) -> None:
    commit = hub.seed(REPO, {"pod.toml": b"1"})
    hub.seed(REPO, {"pod.toml": b"by another"})
    with pytest.raises(Conflict):
        await store.publish({"pod.toml": b"2"}, commit, "serial 2")
    assert hub.files(REPO) == {"pod.toml": b"by another"}


async def test_the_token_is_in_no_argument(hub: HubDouble, store: HfStore) -> None:
    hub.seed(REPO, {"pod.toml": b"1"})
    await store.read(("pod.toml",))
    assert store._child is not None
    assert not [arg for arg in psutil.Process(store._child.pid).cmdline() if "hf_" in arg and "hub" not in arg]
