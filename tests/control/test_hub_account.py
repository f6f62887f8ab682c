"""What the Hub says of us, over the double: token, role, clock, and whether a repository is private."""

from __future__ import annotations

import socket

import pytest

from control import hub_account
from control.errors import Refused, Unreachable
from control.hub import HfAddress
from control.hub_account import holder, read_holder, repo
from tests.doubles.hub import HubDouble

PODS = HfAddress("dataset", "alice/pods")


async def test_a_good_token_and_the_clock(hub: HubDouble) -> None:
    held = await holder("hf_writer", {"HF_ENDPOINT": hub.url + "/"})
    assert (held.name, held.role) == ("alice", "write")
    assert held.ahead_s is not None
    assert abs(held.ahead_s) < 60.0


async def test_a_token_that_the_hub_does_not_know(hub: HubDouble) -> None:
    with pytest.raises(Refused, match="does not know this token") as caught:
        await holder("hf_planted", {"HF_ENDPOINT": hub.url})
    assert "planted" not in str(caught.value)


async def test_repositories(hub: HubDouble) -> None:
    environ = {"HF_ENDPOINT": hub.url}
    assert await repo(PODS, "hf_writer", environ) == "not seen"
    hub.holdings.add_repo("dataset", "alice/pods", True)
    hub.holdings.add_repo("model", "alice/open", False)
    assert await repo(PODS, "hf_writer", environ) == "private"
    assert await repo(PODS, None, environ) == "not seen"
    assert await repo(HfAddress("model", "alice/open"), "hf_writer", environ) == "public"


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable, match="gives no answer"):
            await holder("hf_x", {"HF_ENDPOINT": f"http://127.0.0.1:{taken.getsockname()[1]}"})


@pytest.mark.parametrize("token", ["hf_planted\n", "hf_planted\u00e9"])
async def test_a_token_that_no_header_can_hold(token: str, hub: HubDouble) -> None:
    with pytest.raises((Unreachable, Refused)) as caught:
        await holder(token, {"HF_ENDPOINT": hub.url})
    assert "planted" not in str(caught.value)


def test_a_fine_grained_token() -> None:
    scope = {"entity": {"type": "dataset", "name": "alice/pods"}, "permissions": ["repo.content.read", "repo.write"]}
    access = {"role": "fineGrained", "fineGrained": {"scoped": [scope, "odd"]}}
    held = read_holder({"name": "alice", "auth": {"accessToken": access}}, None)
    assert (held.role, held.may) == ("fineGrained", ("repo.content.read, repo.write on alice/pods",))


@pytest.mark.parametrize("body", [{}, {"auth": 3}, {"name": None, "auth": {"accessToken": {"role": None}}}])
def test_what_is_missing_is_not_known(body: dict[str, object]) -> None:
    assert read_holder(body, None) == hub_account.Holder("?", "?")
