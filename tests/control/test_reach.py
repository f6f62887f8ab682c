"""The first way that leads to a pod answers; every answer says which it was, how old it is, and why no better one."""

from __future__ import annotations

import pytest

from control.ctl import LIVE_ONLY, Request
from control.errors import Refused, Unreachable
from control.models import PodId
from control.reach import Passed, Reach, Said, Via, age_words, needs_the_pod

POD = PodId("k3v9x0q2ab")
LINE = {"seq": 3, "at": 1.0, "source": "engine", "level": "info", "text": "x"}


class Scripted:
    def __init__(self, via: Via, outcome: Said | Exception) -> None:
        self.via = via
        self.outcome = outcome
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Said:
        self.asked.append(request)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def test_the_first_way_is_enough() -> None:
    bridge, ssh = Scripted(Via.BRIDGE, Said({"ok": True})), Scripted(Via.SSH, Said({}))
    answer = await Reach(POD, [bridge, ssh]).ask({"cmd": "keep"})
    assert (answer.value, answer.via, answer.age_s, answer.passed) == ({"ok": True}, Via.BRIDGE, 0.0, ())
    assert answer.how() == ""
    assert ssh.asked == []


async def test_the_next_way_says_why_it_was_needed() -> None:
    bridge, ssh = Scripted(Via.BRIDGE, Unreachable("no answer within 8 s")), Scripted(Via.SSH, Said({"ok": True}))
    answer = await Reach(POD, [bridge, ssh]).ask({"cmd": "restart", "service": "bridge"})
    assert answer.passed == (Passed(Via.BRIDGE, "no answer within 8 s"),)
    assert answer.how() == "over SSH (bridge: no answer within 8 s)"


@pytest.mark.parametrize("via", [Via.BRIDGE, Via.SSH])
async def test_a_pod_that_refuses_has_answered(via: Via) -> None:
    """A refusal, a wrong token or a changed host key is not to be got round by another way."""
    first, second = Scripted(via, Refused("dwell time: 40 s left")), Scripted(Via.HUB, Said({"ok": True}))
    with pytest.raises(Refused, match="dwell time"):
        await Reach(POD, [first, second]).ask({"cmd": "swap", "model": "q"})
    assert second.asked == []


async def test_no_way_at_all_names_each() -> None:
    ways = [Scripted(Via.BRIDGE, Unreachable("refused")), Scripted(Via.SSH, Unreachable("timed out"))]
    with pytest.raises(Unreachable) as caught:
        await Reach(POD, ways, [Passed(Via.HUB, "no log mirror is set up")]).ask({"cmd": "apply"})
    assert caught.value.message == (
        f"pod {POD} cannot be reached (bridge: refused; ssh: timed out; hub: no log mirror is set up)"
    )
    assert caught.value.exit_code == 3
    assert f"passerelle link {POD}" in caught.value.remedy


async def test_a_drain_that_the_bridge_does_not_hear_has_its_own_remedy() -> None:
    with pytest.raises(Unreachable) as caught:
        await Reach(POD, [Scripted(Via.BRIDGE, Unreachable("hung"))]).ask({"cmd": "drain", "on": True})
    assert "passerelle bridge restart" in caught.value.remedy


async def test_an_old_log_says_its_age() -> None:
    ways = [
        Scripted(Via.BRIDGE, Unreachable("refused")),
        Scripted(Via.HUB, Said({"log": [LINE], "log_next": 3}, 40.0)),
    ]
    answer = await Reach(POD, ways).log(None)
    assert (answer.value.lines[0].text, answer.value.next, answer.age_s) == ("x", 3, 40.0)
    assert answer.how() == "from the log's mirror on the Hub, 40 s old (bridge: refused)"


@pytest.mark.parametrize("response", [{}, {"log": 3}, {"log": [{"seq": "x"}]}, {"status": {}}])
async def test_an_answer_of_another_shape_is_no_answer(response: dict[str, object]) -> None:
    reach = Reach(POD, [Scripted(Via.BRIDGE, Said(response))])
    with pytest.raises(Unreachable, match="cannot be read"):
        await reach.log(0)
    with pytest.raises(Unreachable, match="cannot be read"):
        await reach.status()


def test_what_steers_needs_a_pod_that_answers() -> None:
    for command in LIVE_ONLY:
        with pytest.raises(Unreachable, match="takes no commands"):
            needs_the_pod({"cmd": command})
    needs_the_pod({"cmd": "tail"})
    needs_the_pod({"cmd": "status"})


@pytest.mark.parametrize(
    ("age_s", "words"), [(0.0, ""), (0.9, ""), (40.0, ", 40 s old"), (600.0, ", 10 min old"), (90_000.0, ", 25 h old")]
)
def test_ages_in_words(age_s: float, words: str) -> None:
    assert age_words(age_s) == words
