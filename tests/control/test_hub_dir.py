"""Folders as stores: the contract, hand edits, two publishers at once, and what is broken on the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from control.errors import Refused
from control.hub import Conflict, HubStore, NoSuchStore, NoSuchVersion
from control.hub_dir import DirStore
from tests.control.hub_contract import CONTRACT


@pytest.mark.parametrize("promise", CONTRACT)
async def test_the_contract(promise: Callable[[HubStore], Awaitable[None]], tmp_path: Path) -> None:
    async with DirStore(str(tmp_path / "hub")) as store:
        await promise(store)


async def test_the_newest_version_is_plain_files(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path), author="bob")
    commit = (await store.read(())).commit
    await store.publish({"pod.toml.sig": b"s", "pod.toml": b"1"}, commit, "one")
    assert sorted(os.listdir(tmp_path)) == [".history", "pod.toml", "pod.toml.sig"]
    assert (tmp_path / "pod.toml").read_bytes() == b"1"
    (version,) = await store.history(5)
    assert (version.author, version.title) == ("bob", "one")


async def test_what_was_there_before_the_first_publish_is_a_version(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").write_bytes(b"0")
    store = DirStore(str(tmp_path))
    commit = (await store.read(("pod.toml",))).commit
    await store.publish({"pod.toml": b"1"}, commit, "one")
    one, zero = await store.history(5)
    assert (await store.read(("pod.toml",), zero.commit)).files == {"pod.toml": b"0"}
    assert (await store.read(("pod.toml",), one.commit)).files == {"pod.toml": b"1"}


async def test_an_edit_by_hand_is_a_conflict_and_then_a_version(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path))
    first = await store.publish({"pod.toml": b"1"}, (await store.read(())).commit, "one")
    (tmp_path / "pod.toml").write_bytes(b"by hand")
    with pytest.raises(Conflict):
        await store.publish({"pod.toml": b"2"}, first, "two")
    now = await store.read(("pod.toml",))
    await store.publish({"pod.toml": b"2"}, now.commit, "two")
    assert [version.title for version in await store.history(9)] == ["two", "changed by hand", "one"]


async def test_the_mirrored_logs_are_no_part_of_a_version(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path))
    first = await store.publish({"pod.toml": b"1"}, (await store.read(())).commit, "one")
    (tmp_path / "etat").mkdir()
    (tmp_path / "etat" / "pod.log").write_text("log")
    assert (await store.read(("pod.toml",))).commit == first


async def test_of_many_publishers_at_once_one_wins(tmp_path: Path) -> None:
    stores = [DirStore(str(tmp_path), author=f"p{number}") for number in range(8)]
    commit = (await stores[0].read(())).commit
    results = await asyncio.gather(
        *(store.publish({"pod.toml": b"%d" % n}, commit, f"by {n}") for n, store in enumerate(stores)),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, str)]
    assert len(won) == 1
    assert all(isinstance(result, str | Conflict) for result in results)
    newest = (await stores[0].history(1))[0]
    assert (await stores[0].read(("pod.toml",))).files["pod.toml"].decode() == newest.title.removeprefix("by ")


async def test_a_pod_never_sees_the_new_config_before_its_signature(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path))
    written: list[str] = []
    put = store._put

    def spy(path: Path, data: bytes) -> None:
        put(path, data)
        written.append(path.name)

    store._put = spy  # type: ignore[method-assign]
    await store.publish({"pod.toml.sig": b"s", "pod.toml": b"1"}, (await store.read(())).commit, "one")
    assert [name for name in written if name.startswith("pod")] == ["pod.toml.sig", "pod.toml"]


async def test_a_publisher_that_died_half_way_loses_nothing(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path))
    first = await store.publish({"pod.toml": b"1"}, (await store.read(())).commit, "one")

    def dies(files: object, title: str, author: str) -> None:
        raise Refused("killed here")

    broken = DirStore(str(tmp_path))
    broken._add = dies  # type: ignore[method-assign]
    with pytest.raises(Refused, match="killed here"):
        await broken.publish({"pod.toml": b"2"}, first, "two")
    now = await store.read(("pod.toml",))
    await store.publish({"pod.toml": b"3"}, now.commit, "three")
    versions = await store.history(9)
    assert [version.title for version in versions] == ["three", "changed by hand", "one"]
    assert (await store.read(("pod.toml",), versions[1].commit)).files == {"pod.toml": b"2"}


async def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoSuchStore):
        await DirStore(str(tmp_path / "none")).read(("pod.toml",))
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused):
        await DirStore(str(tmp_path / "file" / "hub")).make()
    with pytest.raises(NoSuchStore):
        await DirStore(str(tmp_path / "file")).read(("pod.toml",))


@pytest.mark.parametrize("commit", ["1", "2-0000000000", "x", "", "-1", "0", "1-wrong", "../1"])
async def test_versions_that_do_not_exist(tmp_path: Path, commit: str) -> None:
    store = DirStore(str(tmp_path))
    await store.read(())
    with pytest.raises(NoSuchVersion):
        await store.read(("pod.toml",), commit)


async def test_a_broken_history_is_said(tmp_path: Path) -> None:
    store = DirStore(str(tmp_path))
    await store.publish({"pod.toml": b"1"}, (await store.read(())).commit, "one")
    (tmp_path / ".history" / "000001.json").write_text("{")
    with pytest.raises(NoSuchVersion, match="version 1"):
        await store.history(1)
