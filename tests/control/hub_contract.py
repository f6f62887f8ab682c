"""What every HubStore must do, whatever it is made of: the tests of control/hub_dir.py and control/hub_hf.py."""

from __future__ import annotations

import pytest

from control.hub import Conflict, HubStore, NoSuchVersion, Published


async def begins_empty(store: HubStore) -> Published:
    await store.make()
    await store.make()
    found = await store.read(("pod.toml",))
    assert found.files == {}
    return found


async def publishes_on_what_was_read(store: HubStore) -> None:
    empty = await begins_empty(store)
    first = await store.publish({"pod.toml.sig": b"s1", "pod.toml": b"serial = 1\n"}, empty.commit, "serial 1")
    found = await store.read(("pod.toml", "pod.toml.sig", "absent"))
    assert found == Published(first, {"pod.toml": b"serial = 1\n", "pod.toml.sig": b"s1"})
    second = await store.publish({"pod.toml": b"\xff\x00"}, first, "serial 2")
    assert (await store.read(("pod.toml", "pod.toml.sig"))).files == {"pod.toml": b"\xff\x00", "pod.toml.sig": b"s1"}
    assert second != first


async def never_overwrites_another_publisher(store: HubStore) -> None:
    empty = await begins_empty(store)
    first = await store.publish({"pod.toml": b"1"}, empty.commit, "one")
    await store.publish({"pod.toml": b"2"}, first, "two")
    with pytest.raises(Conflict):
        await store.publish({"pod.toml": b"3"}, first, "three")
    with pytest.raises(Conflict):
        await store.publish({"pod.toml": b"3"}, empty.commit, "three")
    assert (await store.read(("pod.toml",))).files == {"pod.toml": b"2"}
    assert [version.title for version in await store.history(10)][:2] == ["two", "one"]


async def the_same_content_is_no_version(store: HubStore) -> None:
    empty = await begins_empty(store)
    first = await store.publish({"pod.toml": b"1"}, empty.commit, "one")
    assert await store.publish({"pod.toml": b"1"}, first, "again") == first
    assert "again" not in [version.title for version in await store.history(10)]


async def every_version_can_be_read(store: HubStore) -> None:
    commit = (await begins_empty(store)).commit
    commits = []
    for number in range(1, 5):
        commit = await store.publish({"pod.toml": b"%d" % number}, commit, f"serial {number}")
        commits.append(commit)
    versions = await store.history(3)
    assert [version.commit for version in versions] == commits[:0:-1]
    assert [version.title for version in versions] == ["serial 4", "serial 3", "serial 2"]
    for number, commit in enumerate(commits, 1):
        assert await store.read(("pod.toml", "absent"), commit) == Published(commit, {"pod.toml": b"%d" % number})
    with pytest.raises(NoSuchVersion):
        await store.read(("pod.toml",), "0123456789012345678901234567890123456789")


CONTRACT = (
    publishes_on_what_was_read,
    never_overwrites_another_publisher,
    the_same_content_is_no_version,
    every_version_can_be_read,
)
