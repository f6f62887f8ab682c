"""The Hub double against the real huggingface_hub, and its faults as a plain HTTP client sees them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import IncompleteRead, RemoteDisconnected
from pathlib import Path

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_hf_file_metadata, hf_hub_url
from huggingface_hub import constants as hf
from huggingface_hub.errors import (
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.doubles.hub import HubDouble
from tests.doubles.hub_repo import blob_sha1

REPO = "alice/pods"


@pytest.fixture
def api(hub: HubDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HfApi]:
    monkeypatch.setattr(hf, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(hf, "HF_HUB_CACHE", str(tmp_path))
    yield HfApi(endpoint=hub.url, token="hf_writer")
    huggingface_hub.close_session()


def publish(api: HfApi, text: str, parent: str | None = None, path: str = "pod.toml", title: str = "publish") -> str:
    add = [CommitOperationAdd(path, text.encode())]
    return api.create_commit(REPO, add, commit_message=title, repo_type="dataset", parent_commit=parent).oid


def made(api: HfApi) -> HfApi:
    api.create_repo(REPO, repo_type="dataset", private=True, exist_ok=True)
    return api


def get(url: str, token: str | None = "hf_writer", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """(status, headers in lower case, body); follows no redirect."""
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with httpx2.Client(follow_redirects=False) as client:
        answer = client.get(url, headers=headers)
        return answer.status_code, dict(answer.headers), answer.content


def test_whoami_and_create_are_what_the_client_expects(api: HfApi) -> None:
    assert api.whoami()["name"] == "alice"
    made(made(api))  # the second is a 409 that exist_ok swallows
    assert api.repo_info(REPO, repo_type="dataset").private is True


def test_commits_replace_files_and_move_the_head(api: HfApi, hub: HubDouble) -> None:
    first = publish(made(api), "serial = 1\n")
    second = publish(api, "serial = 2\n", parent=first)
    assert hub.files("datasets/" + REPO) == {"pod.toml": b"serial = 2\n"}
    assert api.repo_info(REPO, repo_type="dataset", expand="sha").sha == second == hub.head("datasets/" + REPO)
    assert api.list_repo_refs(REPO, repo_type="dataset").branches[0].target_commit == second
    titles = [commit.title for commit in api.list_repo_commits(REPO, repo_type="dataset")]
    assert titles == ["publish", "publish", "initial commit"]


def test_a_long_history_comes_in_pages(api: HfApi, hub: HubDouble) -> None:
    for number in range(120):
        hub.seed("datasets/" + REPO, {"pod.toml": b"%d" % number}, title=f"change {number}")
    found = api.list_repo_commits(REPO, repo_type="dataset")
    assert [commit.title for commit in found] == [f"change {n}" for n in reversed(range(120))] + ["initial commit"]
    assert len({commit.created_at for commit in found}) == 121


def test_a_stale_parent_is_412_and_changes_nothing(api: HfApi, hub: HubDouble) -> None:
    first = publish(made(api), "serial = 1\n")
    publish(api, "serial = 2\n", parent=first)
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        publish(api, "serial = 3\n", parent=first)
    assert caught.value.response.status_code == 412
    assert hub.files("datasets/" + REPO) == {"pod.toml": b"serial = 2\n"}


def test_the_same_content_makes_no_commit(api: HfApi, hub: HubDouble) -> None:
    first = publish(made(api), "serial = 1\n")
    assert publish(api, "serial = 1\n") == first == hub.head("datasets/" + REPO)


def test_deleting(api: HfApi, hub: HubDouble) -> None:
    hub.seed("datasets/" + REPO, {"etat/a.log": b"a", "etat/b.log": b"b", "pod.toml": b"p"})
    operations = [CommitOperationDelete("etat/a.log")]
    api.create_commit(REPO, operations, commit_message="tidy", repo_type="dataset")
    assert sorted(hub.files("datasets/" + REPO)) == ["etat/b.log", "pod.toml"]
    api.create_commit(REPO, [CommitOperationDelete("etat/")], commit_message="tidy", repo_type="dataset")
    assert sorted(hub.files("datasets/" + REPO)) == ["pod.toml"]
    with pytest.raises(RemoteEntryNotFoundError):
        api.create_commit(REPO, operations, commit_message="again", repo_type="dataset")


def test_downloads_carry_etag_and_commit(api: HfApi, hub: HubDouble) -> None:
    oid = publish(made(api), "serial = 1\n")
    url = hf_hub_url(REPO, "pod.toml", repo_type="dataset", endpoint=hub.url)
    head = get_hf_file_metadata(url, token="hf_writer")
    assert (head.commit_hash, head.etag, head.size) == (oid, blob_sha1(b"serial = 1\n"), 11)
    path = api.hf_hub_download(REPO, "pod.toml", repo_type="dataset")
    assert Path(path).read_bytes() == b"serial = 1\n"


def test_the_etag_is_what_git_says(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"serial = 1\n")
    said = subprocess.run(["git", "hash-object", tmp_path / "f"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == blob_sha1(b"serial = 1\n")


def test_what_is_missing_is_told_apart(api: HfApi) -> None:
    publish(made(api), "serial = 1\n")
    with pytest.raises(RemoteEntryNotFoundError):
        api.hf_hub_download(REPO, "nope.toml", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(REPO, "pod.toml", repo_type="dataset", revision="nope")
    with pytest.raises(RepositoryNotFoundError):
        api.repo_info("alice/none", repo_type="dataset")


@pytest.mark.parametrize(("token", "status"), [("hf_wrong", 401), ("hf_stranger", 404)])
def test_a_private_repository_does_not_exist_for_others(api: HfApi, hub: HubDouble, token: str, status: int) -> None:
    from tests.doubles.hub_state import Token

    hub.holdings.tokens["hf_stranger"] = Token("mallory", "write")
    publish(made(api), "serial = 1\n")
    with pytest.raises(RepositoryNotFoundError) as caught:
        api.repo_info(REPO, repo_type="dataset", token=token)
    assert caught.value.response.status_code == status


def test_a_fine_grained_token_sees_its_repository_only(hub: HubDouble) -> None:
    from tests.doubles.hub_state import Token

    hub.holdings.tokens["hf_pod"] = Token("alice", "read", frozenset({"datasets/alice/pods"}))
    hub.seed("datasets/alice/pods", {"pod.toml": b"p"})
    hub.seed("datasets/alice/other", {"pod.toml": b"o"})
    assert get(f"{hub.url}/datasets/alice/pods/resolve/main/pod.toml", "hf_pod")[0] == 200
    assert get(f"{hub.url}/datasets/alice/other/resolve/main/pod.toml", "hf_pod")[0] == 404


def test_a_read_token_may_not_write(api: HfApi) -> None:
    made(api)
    with pytest.raises(HfHubHTTPError, match="write token") as caught:
        publish(HfApi(endpoint=api.endpoint, token="hf_reader"), "x")
    assert caught.value.response.status_code == 403


def test_squash_breaks_every_older_commit(api: HfApi, hub: HubDouble) -> None:
    old = publish(made(api), "serial = 1\n")
    api.super_squash_history(REPO, repo_type="dataset")
    assert hub.files("datasets/" + REPO) == {"pod.toml": b"serial = 1\n"}
    assert get(f"{hub.url}/datasets/{REPO}/resolve/{old}/pod.toml")[0] == 404
    with pytest.raises(HfHubHTTPError, match="A commit has happened since"):
        publish(api, "serial = 2\n", parent=old)


def test_conditions_and_ranges(hub: HubDouble) -> None:
    commit = hub.seed("datasets/" + REPO, {"pod.toml": b"boot line 1\n"})
    url = f"{hub.url}/datasets/{REPO}/resolve/main/pod.toml"
    status, headers, body = get(url)
    assert (status, body, headers["x-repo-commit"]) == (200, b"boot line 1\n", commit)
    status, headers, body = get(url, **{"if-none-match": headers["etag"]})
    assert (status, body, headers["x-repo-commit"]) == (304, b"", commit)
    status, headers, body = get(url, range="bytes=5-")
    assert (status, body, headers["content-range"]) == (206, b"line 1\n", "bytes 5-11/12")


@pytest.mark.parametrize("repo", ["datasets/alice/pub", "alice/pub"])
def test_a_public_file_is_a_redirect_to_the_cache(hub: HubDouble, repo: str) -> None:
    hub.seed(repo, {"etat/a b.txt": b"hello"}, private=False)
    status, headers, _ = get(f"{hub.url}/{repo}/resolve/main/etat/a%20b.txt", None)
    assert (status, headers["location"].startswith("/api/resolve-cache/")) == (307, True)
    assert get(hub.url + headers["location"], None)[2] == b"hello"
    assert get(hub.url + headers["location"], None, **{"if-none-match": headers["etag"]})[0] == 304


# the client's own way of sending an LFS object warns in httpx2
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_binary_file_is_kept_apart_and_its_address_takes_no_token(api: HfApi, hub: HubDouble) -> None:
    data = b"PK\0\1" * 100
    add = [CommitOperationAdd("code.bin", data)]
    made(api).create_commit(REPO, add, commit_message="code", repo_type="dataset")
    assert Path(api.hf_hub_download(REPO, "code.bin", repo_type="dataset")).read_bytes() == data
    status, headers, _ = get(f"{hub.url}/datasets/{REPO}/resolve/main/code.bin")
    assert status == 302
    assert get(headers["location"])[0] == 400
    assert get(headers["location"], None)[2] == data


def test_the_commit_quota_says_what_the_hub_says(api: HfApi, hub: HubDouble) -> None:
    made(api)
    hub.faults.add("commit_quota", "POST .*/commit/")
    with pytest.raises(HfHubHTTPError, match=r"repository commits \(128 per hour\)") as caught:
        publish(api, "serial = 1\n")
    assert (caught.value.response.status_code, caught.value.response.headers["retry-after"]) == (429, "3600")
    assert hub.files("datasets/" + REPO) == {}


def test_the_api_window_is_obeyed_by_the_client(api: HfApi, hub: HubDouble) -> None:
    made(api)
    hub.faults.add("api_window", "POST .*/preupload/", seconds=0)
    publish(api, "serial = 1\n")
    preuploads = [status for method, target, status in hub.requests if "/preupload/" in target]
    assert preuploads == [429, 200]


def test_an_error_after_the_commit_leaves_the_commit(api: HfApi, hub: HubDouble) -> None:
    made(api)
    hub.faults.add("committed_but", "POST .*/commit/", status=500)
    with pytest.raises(HfHubHTTPError):
        publish(api, "serial = 1\n")
    assert hub.files("datasets/" + REPO) == {"pod.toml": b"serial = 1\n"}


def test_a_server_error_is_not_the_clients_json(api: HfApi, hub: HubDouble) -> None:
    made(api)
    hub.faults.add("status", "GET /api/datasets", status=503)
    with pytest.raises(HfHubHTTPError) as caught:
        api.repo_info(REPO, repo_type="dataset")
    assert caught.value.response.status_code == 503


def test_a_hang_is_never_answered_and_ends_with_the_server(hub: HubDouble) -> None:
    hub.seed("datasets/" + REPO, {"pod.toml": b"p"})
    hub.faults.add("hang", "resolve")
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(f"{hub.url}/datasets/{REPO}/resolve/main/pod.toml", timeout=0.2)


def test_a_broken_answer(hub: HubDouble) -> None:
    hub.seed("datasets/" + REPO, {"pod.toml": b"0123456789"})
    request = urllib.request.Request(f"{hub.url}/datasets/{REPO}/resolve/main/pod.toml")
    request.add_header("authorization", "Bearer hf_reader")
    hub.faults.add("truncate", "resolve")
    hub.faults.add("reset", "resolve")
    with pytest.raises(IncompleteRead), urllib.request.urlopen(request, timeout=5) as answer:
        answer.read()
    with pytest.raises(RemoteDisconnected):
        urllib.request.urlopen(request, timeout=5)
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.read() == b"0123456789"


def test_readers_may_see_a_commit_late(hub: HubDouble) -> None:
    old = hub.seed("datasets/" + REPO, {"pod.toml": b"1"})
    hub.holdings.lag_reads = 2
    new = hub.seed("datasets/" + REPO, {"pod.toml": b"2"})
    url = f"{hub.url}/datasets/{REPO}/resolve/main/pod.toml"
    assert [get(url)[1]["x-repo-commit"] for _ in range(3)] == [old, old, new]


def test_nonsense_is_refused_and_the_server_lives(hub: HubDouble) -> None:
    hub.seed("datasets/" + REPO, {"pod.toml": b"1"})
    request = urllib.request.Request(f"{hub.url}/api/datasets/{REPO}/commit/main", data=b"not json", method="POST")
    request.add_header("authorization", "Bearer hf_writer")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=5)
    with socket.create_connection(("127.0.0.1", int(hub.url.rpartition(":")[2]))) as raw:
        raw.sendall(b"garbage\r\n\r\n")
        assert b"Error code: 400" in raw.recv(1000)
    assert get(f"{hub.url}/api/agent-harnesses")[0] == 404


@pytest.mark.process
def test_it_runs_as_a_process_and_is_steered_from_outside(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").write_text("serial = 7\n")
    argv = [sys.executable, "-P", "-m", "tests.doubles.hub", "--file", f"pod.toml={tmp_path / 'pod.toml'}"]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=root, env={"PYTHONPATH": root}) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            file = f"{url}/datasets/alice/pods/resolve/main/pod.toml"
            assert get(file)[2] == b"serial = 7\n"
            fault = json.dumps({"kind": "status", "where": "resolve", "status": 503}).encode()
            with urllib.request.urlopen(f"{url}/_double/fault", data=fault, timeout=5) as answer:
                assert answer.status == 200
            assert [get(file)[0], get(file)[0]] == [503, 200]
        finally:
            process.terminate()
