"""Publishing: what it would do, two publishers, the wait for an idle moment, and what the pod makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from control.draft import Code, code_of, serial_of
from control.errors import Refused, Unreachable
from control.hub import CODE, CONFIG, SIGNATURE, Conflict
from control.hub_dir import DirStore
from control.publish import Overtaken, Publisher
from tests.control.pod_double import PodDouble, StillClock, status
from tests.control.publishing import OPERATOR, signed

TEXT = """[serve]
model = "tiny"
images = {images}

[models.tiny]
repo = "owner/tiny"
"""
SHA = "a" * 64


def text(images: int = 4) -> str:
    return TEXT.format(images=images)


@pytest.fixture
async def store(tmp_path: Path) -> DirStore:
    made = DirStore(str(tmp_path / "hub"))
    await made.make()
    return made


def publisher(store: DirStore, pod: PodDouble | None = None) -> Publisher:
    return Publisher(store, OPERATOR, pod, StillClock())


async def published(store: DirStore, images: int) -> int:
    made = publisher(store)
    draft = (await made.look(text(images), "pod.toml", None)).draft
    await made.send(draft)
    return draft.serial


async def test_a_publish_is_signed_and_one_serial_on(store: DirStore) -> None:
    assert [await published(store, 4), await published(store, 8)] == [1, 2]
    found = await store.read((CONFIG, SIGNATURE))
    assert serial_of(found.files[CONFIG]) == 2
    assert found.files[SIGNATURE] == signed(found.files[CONFIG])
    assert (await store.history(9))[0].title == "serial 2: images = 8"


async def test_the_usual_mirror_is_published_and_planned(store: DirStore) -> None:
    made = Publisher(store, OPERATOR, None, StillClock(), mirror="hf://datasets/me/logs")
    outlook = await made.look(text(), "pod.toml", None)
    assert outlook.draft.wanted.log.mirror == "hf://datasets/me/logs"
    await made.send(outlook.draft)
    assert (await made.look(text(), "pod.toml", None)).draft.diff == (), "and is no change the next time"


async def test_looking_changes_nothing(store: DirStore) -> None:
    await published(store, 4)
    before = await store.read((CONFIG,))
    outlook = await publisher(store, PodDouble([status(serial=1, live=3, took_s=95.0)])).look(text(8), "x", None)
    assert (outlook.plan.action, outlook.live, outlook.eta_s) == ("restart engine", 3, 95.0)
    assert await store.read((CONFIG,)) == before


async def test_the_plan_compares_with_what_the_pod_runs_not_with_what_is_published(store: DirStore) -> None:
    await published(store, 4)
    await published(store, 8)
    refused_the_second = PodDouble([status(serial=1, error="refused")])
    assert (await publisher(store, refused_the_second).look(text(4), "x", None)).plan.action == "nothing"
    assert (await publisher(store, PodDouble([status(serial=2)])).look(text(8), "x", None)).plan.action == "nothing"
    runs_what_nobody_has = PodDouble([status(serial=77)])
    outlook = await publisher(store, runs_what_nobody_has).look(text(4), "x", None)
    assert (outlook.plan.action, outlook.draft.serial) == ("restart engine", 78)


async def test_a_silent_pod_is_said_and_the_published_text_compared(store: DirStore) -> None:
    await published(store, 4)
    outlook = await publisher(store, PodDouble([None])).look(text(4), "x", None)
    assert (outlook.status, outlook.why_unknown, outlook.plan.action) == (None, "the pod does not answer", "nothing")
    assert (await publisher(store).look(text(4), "x", None)).why_unknown == "no pod runs"


async def test_of_two_publishers_the_second_sees_what_the_first_changed(store: DirStore) -> None:
    await published(store, 4)
    first, second = publisher(store), publisher(store)
    mine = (await first.look(text(5), "x", None)).draft
    theirs = (await second.look(text(6), "x", None)).draft
    await second.send(theirs)
    with pytest.raises(Overtaken) as caught:
        await first.send(mine)
    assert "-images = 4" in caught.value.diff
    assert "+images = 6" in caught.value.diff
    assert (await store.read((CONFIG,))).files[CONFIG] == theirs.files[CONFIG]
    await first.send((await first.look(text(5), "x", None)).draft)
    assert serial_of((await store.read((CONFIG,))).files[CONFIG]) == 3


async def test_an_edit_of_what_is_no_longer_the_newest_is_refused_before_anything_is_sent(store: DirStore) -> None:
    await published(store, 4)
    made_from = await store.read((CONFIG,))
    await published(store, 6)
    with pytest.raises(Overtaken) as caught:
        await publisher(store).look(text(5), "x", None, made_from)
    assert "+images = 6" in caught.value.diff


async def test_a_commit_of_something_else_overtakes_nobody(store: DirStore) -> None:
    await published(store, 4)
    made = publisher(store)
    draft = (await made.look(text(5), "x", None)).draft
    await store.publish({"of-another.pod": b"x"}, draft.there.commit, "another pod")
    await made.send(draft)
    assert (await store.read((CONFIG,))).files[CONFIG] == draft.files[CONFIG]
    assert [version.title for version in await store.history(2)] == ["serial 2: images = 5", "another pod"]


async def test_a_store_that_never_stands_still_is_given_up(store: DirStore) -> None:
    await published(store, 4)
    made = publisher(store)
    draft = (await made.look(text(5), "x", None)).draft
    publish = store.publish

    async def late(files: Mapping[str, bytes], parent: str, title: str) -> str:
        there = await store.read(())
        await publish({"log": there.commit.encode()}, there.commit, "log")
        return await publish(files, parent, title)

    store.publish = late  # type: ignore[method-assign]
    with pytest.raises(Conflict) as caught:
        await made.send(draft)
    assert not isinstance(caught.value, Overtaken)


async def test_code_travels_with_the_config_that_names_it(store: DirStore) -> None:
    made = publisher(store)
    await made.send((await made.look(text(), "x", Code(SHA, b"code"))).draft)
    found = await store.read((CONFIG, CODE))
    assert code_of(found.files[CONFIG]) == SHA
    assert found.files[CODE] == b"code"
    await made.send((await made.look(text(8), "x", None)).draft)
    assert code_of((await store.read((CONFIG,))).files[CONFIG]) == SHA


async def test_idle_is_two_looks_in_a_row_without_a_stream(store: DirStore) -> None:
    said: list[str] = []
    pod = PodDouble([status(live=n) for n in (0, 3, 3, 0, 1, 0, 0, 9)])
    await publisher(store, pod).idle(said.append)
    assert said == ["waiting for 3 streams in flight", "waiting for 1 stream in flight"]
    assert pod.says == [status(live=9)]


@pytest.mark.parametrize("pod", [None, PodDouble([None]), PodDouble([status(live=None)])])
async def test_nobody_can_say_that_a_silent_pod_is_idle(store: DirStore, pod: PodDouble | None) -> None:
    with pytest.raises(Unreachable):
        await publisher(store, pod).idle(lambda said: None)


async def test_in_force_is_what_the_pod_says(store: DirStore) -> None:
    pod = PodDouble([status(serial=1), status(serial=1), None, status(serial=2)])
    await published(store, 4)
    made = publisher(store, pod)
    outlook = await made.look(text(8), "x", None)
    await made.send(outlook.draft)
    said: list[str] = []
    applied = await made.applied(outlook.draft, outlook.status, 60.0, said.append)
    assert (applied.plan, pod.looked) == ("reload bridge", 1)
    assert said == ["serial 1 is in force", "the pod does not answer"]


async def test_a_pod_that_will_not_look_now_looks_by_itself(store: DirStore) -> None:
    pod = PodDouble([status(serial=1)], refuses_to_look=True)
    made = publisher(store, pod)
    draft = (await made.look(text(), "x", None)).draft
    pod.says = [status(serial=1), status(serial=draft.serial)]
    assert (await made.applied(draft, None, 60.0, lambda said: None)).plan == "reload bridge"


async def test_the_pods_refusal_is_told_with_its_reason(store: DirStore) -> None:
    pod = PodDouble([status(serial=1), status(serial=1, error="refused: its signature does not match")])
    made = publisher(store, pod)
    outlook = await made.look(text(), "x", None)
    with pytest.raises(Refused, match="does not take it: refused: its signature") as caught:
        await made.applied(outlook.draft, outlook.status, 60.0, lambda said: None)
    assert "rollback" in caught.value.remedy


async def test_a_refusal_of_before_is_not_taken_for_the_answer(store: DirStore) -> None:
    old = status(serial=1, error="refused: the one before")
    made = publisher(store, PodDouble([old]))
    outlook = await made.look(text(), "x", None)
    made = publisher(store, PodDouble([old, old, status(serial=outlook.draft.serial)]))
    await made.applied(outlook.draft, outlook.status, 60.0, lambda said: None)
    made = publisher(store, PodDouble([old]))
    with pytest.raises(Refused, match="the one before"):
        await made.applied(outlook.draft, outlook.status, 60.0, lambda said: None)


async def test_new_code_says_when_it_comes_into_force(store: DirStore) -> None:
    pod = PodDouble([status(serial=1), status(serial=1, error="needs a new pod: [code] sha256: a -> b")])
    made = publisher(store, pod)
    outlook = await made.look(text(), "x", None)
    with pytest.raises(Refused) as caught:
        await made.applied(outlook.draft, outlook.status, 60.0, lambda said: None)
    assert "at its next start" in caught.value.remedy


async def test_silence_ends_at_the_deadline_and_says_what_was_heard_last(store: DirStore) -> None:
    made = publisher(store, PodDouble([status(serial=1)]))
    draft = (await made.look(text(), "x", None)).draft
    with pytest.raises(Unreachable, match=r"serial 2; .* within 60 s .*\(serial 1 is in force\)"):
        await made.applied(draft, None, 60.0, lambda said: None)
    with pytest.raises(Unreachable, match="no pod runs"):
        await publisher(store).applied(draft, None, 60.0, lambda said: None)
