"""Drafts: serial and code set in a text that somebody wrote, its signature, its plan, its title."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap import seal
from bootstrap.spec import parse
from control import draft as drafts
from control.draft import Code, ConfigRefused, draft, stamped
from control.errors import Refused
from control.hub import CODE, CONFIG, SIGNATURE, Published
from tests.control.publishing import OPERATOR, signed

TEXT = """# my pod
[serve]
model = "tiny"   # the small one
images = 4

[models.tiny]
repo = "owner/tiny"
"""
SHA = "a" * 64
OTHER = "b" * 64
EMPTY = Published("c0", {})


def there(text: str, **more: bytes) -> Published:
    return Published("c1", {CONFIG: text.encode(), SIGNATURE: signed(text.encode()), **more})


def test_the_first_publish() -> None:
    made = draft(TEXT, "pod.toml", EMPTY, OPERATOR, Code(SHA, b"code"), 0)
    assert (made.there.commit, made.serial, made.wanted.serial, made.wanted.code.sha256) == ("c0", 1, 1, SHA)
    assert list(made.files) == [CODE, SIGNATURE, CONFIG]
    assert made.files[SIGNATURE] == signed(made.files[CONFIG])
    assert seal.check(made.files[CONFIG], made.files[SIGNATURE].decode(), OPERATOR) is None


@pytest.mark.parametrize("text", [TEXT, TEXT + "\n[log]\nevery_seconds = 60\n", TEXT.replace("\n", "\r\n")])
def test_a_log_without_a_place_gets_the_usual_one(text: str) -> None:
    made = draft(text, "pod.toml", EMPTY, OPERATOR, None, 0, "hf://datasets/me/logs")
    assert made.wanted.log.mirror == "hf://datasets/me/logs"
    assert made.files[CONFIG].decode().startswith("# my pod")
    named = text.replace("[models.tiny]", "[models.tiny]\n").rstrip() + "\n"
    own = named + (
        'mirror = "hf://datasets/me/own"\n' if "[log]" in text else '[log]\nmirror = "hf://datasets/me/own"\n'
    )
    assert (
        draft(own, "x", EMPTY, OPERATOR, None, 0, "hf://datasets/me/logs").wanted.log.mirror == "hf://datasets/me/own"
    )
    assert draft(text, "x", EMPTY, OPERATOR, None, 0).wanted.log.mirror is None


def test_what_was_written_stays_as_it_was_written() -> None:
    lines = stamped(TEXT, "x", 7, SHA).splitlines()
    for line in TEXT.splitlines():
        assert line in lines


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "serial = 3\n" + TEXT,
        "serial=3 # three\n" + TEXT,
        TEXT + '\n[code]\nsha256 = "old"\n',
        'code = { sha256 = "old" }\n' + TEXT,
        'code.sha256 = "old"\n' + TEXT,
        TEXT.replace("\n", "\r\n"),
        TEXT.rstrip("\n"),
    ],
)
def test_serial_and_code_are_set_however_they_were_written(text: str) -> None:
    for sha256 in (SHA, None):
        read = parse(stamped(text, "x", 42, sha256))
        assert (read.serial, read.code.sha256) == (42, sha256)
        assert read.serve.images == 4


@given(st.integers(0, 10**8), st.integers(0, 10**8))
def test_the_serial_is_above_what_is_published_and_what_runs(published: int, runs: int) -> None:
    made = draft(TEXT, "x", there(f"serial = {published}\n" + TEXT), OPERATOR, None, runs)
    assert made.serial == max(published, runs) + 1


@pytest.mark.parametrize(
    "broken", [b"", b"\xff", b"serial = ", b'serial = "x"\n', b"serial = -1\n", b"serial = true\n"]
)
def test_a_broken_file_can_be_replaced(broken: bytes) -> None:
    made = draft(TEXT, "x", Published("c", {CONFIG: broken}), OPERATOR, None, 0)
    assert made.serial == 1


def test_the_code_is_sent_only_when_it_changed() -> None:
    published = there(stamped(TEXT, "x", 1, SHA), **{CODE: b"code"})
    assert CODE not in draft(TEXT, "x", published, OPERATOR, None, 0).files
    assert CODE not in draft(TEXT, "x", published, OPERATOR, Code(SHA, b"code"), 0).files
    assert draft(TEXT, "x", published, OPERATOR, Code(OTHER, b"new"), 0).files[CODE] == b"new"
    lost = Published("c", {CONFIG: published.files[CONFIG]})
    assert draft(TEXT, "x", lost, OPERATOR, Code(SHA, b"code"), 0).files[CODE] == b"code"


def test_without_new_code_the_published_one_stays_whatever_the_text_says() -> None:
    published = there(stamped(TEXT, "x", 1, SHA), **{CODE: b"code"})
    made = draft(TEXT + f'[code]\nsha256 = "{OTHER}"\n', "x", published, OPERATOR, None, 0)
    assert made.wanted.code.sha256 == SHA


def test_a_wrong_text_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigRefused, match=r"my\.toml: pod\.toml line 4.*concurency"):
        draft(TEXT.replace("images = 4", "concurency = 4"), "my.toml", EMPTY, OPERATOR, None, 0)


def test_the_difference_leaves_the_serial_out() -> None:
    published = there(stamped(TEXT, "x", 1, None))
    assert draft(TEXT, "x", published, OPERATOR, None, 0).diff == ()
    changed = draft(TEXT.replace("images = 4", "images = 8"), "x", published, OPERATOR, None, 0)
    assert [line for line in changed.diff if line[0] in "+-" and line[1] not in "+-"] == ["-images = 4", "+images = 8"]
    assert changed.title == "serial 2: images = 8"
    assert draft(TEXT, "x", published, OPERATOR, None, 0).title == "serial 2"


def test_the_plan_is_the_pods_own() -> None:
    made = draft(TEXT.replace("images = 4", "images = 8"), "x", EMPTY, OPERATOR, None, 0)
    found = drafts.plan(TEXT.encode(), made.wanted)
    assert found.action == "restart engine"
    assert found.reasons == ("[serve] images: 4 -> 8",)
    assert drafts.plan(TEXT.encode(), parse(TEXT)).action == "nothing"
    assert drafts.plan(b"\xff", made.wanted).action == "restart engine"
    assert drafts.plan(None, made.wanted).action == "restart engine"


def test_nothing_published_has_no_text() -> None:
    assert drafts.text_of(there(TEXT), "x") == TEXT
    with pytest.raises(Refused, match="nothing is published to dir:///x"):
        drafts.text_of(EMPTY, "dir:///x")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_is_a_good_draft_or_a_refusal(text: str) -> None:
    try:
        made = draft(text, "x", EMPTY, OPERATOR, None, 0)
    except ConfigRefused:
        return
    assert tomllib.loads(made.files[CONFIG].decode())["serial"] == 1
