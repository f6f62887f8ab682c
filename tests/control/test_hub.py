"""Addresses of stores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap import hub
from control import pod_start
from control.errors import UsageError
from control.hub import HfAddress, below, open_store, parse_dir, parse_hf


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("hf://datasets/alice/pods", HfAddress("dataset", "alice/pods")),
        ("hf://datasets/alice/pods/", HfAddress("dataset", "alice/pods")),
        ("hf://alice/pods", HfAddress("model", "alice/pods")),
        ("hf://datasets/alice/pods/a40", HfAddress("dataset", "alice/pods", "a40")),
        ("hf://alice/my.pods-2/a/b", HfAddress("model", "alice/my.pods-2", "a/b")),
    ],
)
def test_addresses_of_the_hub(url: str, address: HfAddress) -> None:
    assert parse_hf(url) == address
    assert address.url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        *("hf://alice", "hf://", "hf://datasets/alice", "hf://spaces/alice/pods", "hf://alice/pods/../x"),
        *("hf://alice/pods x", "hf://alice/pods?x=1", "https://huggingface.co/alice/pods", "", "x"),
        *("dir://relative/path", "dir:///", "file:///etc"),
    ],
)
def test_what_is_no_address_is_refused_with_the_forms(url: str) -> None:
    assert parse_hf(url) is None
    with pytest.raises(UsageError) as caught:
        open_store(url, None)
    assert "hf://datasets/owner/name" in caught.value.remedy


def test_one_pods_store_in_a_store_of_several() -> None:
    assert below("hf://datasets/alice/pods/", "a40-3f2a") == "hf://datasets/alice/pods/a40-3f2a"
    assert below("hf://alice/pods", "my pod: é/../x-1.") == "hf://alice/pods/my-pod-..-x-1"
    assert parse_hf(below("hf://alice/pods/all", "a40")) == HfAddress("model", "alice/pods", "all/a40")


def test_folders() -> None:
    assert parse_dir("dir:///home/alice/hub") == "/home/alice/hub"
    assert parse_dir("dir://C:\\Users\\alice\\hub") == "C:\\Users\\alice\\hub"
    assert open_store("dir:///home/alice/hub", None).url == "dir:///home/alice/hub"
    assert open_store("hf://datasets/alice/pods/a40", None).url == "hf://datasets/alice/pods/a40"


@given(st.text(max_size=60))
def test_no_text_is_an_address_that_climbs_out(text: str) -> None:
    found = parse_hf("hf://" + text)
    if found is not None:
        assert not {"..", "", "."} & set(f"{found.repo}/{found.folder or 'x'}".split("/"))


PART = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,6}[A-Za-z0-9])?", fullmatch=True)


@given(st.booleans(), PART, PART, st.lists(PART, max_size=3), st.booleans())
def test_the_pod_looks_where_we_publish(dataset: bool, owner: str, name: str, folders: list[str], slash: bool) -> None:
    """Three readers of one URL: ours, the supervisor's, and that of the start command, which can import neither."""
    url = "/".join(["hf:/", *(["datasets"] if dataset else []), owner, name, *folders]) + "/" * slash
    ours = parse_hf(url)
    if ours is None:  # an owner called "spaces"
        return
    theirs = hub.parse(url)
    kinds = {"datasets": "dataset", "models": "model"}
    assert (kinds[theirs.kind or ""], theirs.name, theirs.path) == (ours.kind, ours.repo, ours.folder)
    kind, repo, folder = pod_start.place(url)
    first = HfAddress("dataset" if kind else "model", repo, folder.rstrip("/"))
    assert first == ours


@given(st.text(alphabet="/abc.-", min_size=1, max_size=20))
def test_a_folder_is_the_same_to_both(path: str) -> None:
    ours = parse_dir(f"dir:///{path}")
    if ours is not None:
        assert hub.parse(f"dir:///{path}").name == ours.rstrip("/")
