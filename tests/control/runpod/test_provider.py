"""A rented pod's life against the double, with every trouble that RunPod is known for."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from control.cost import spent
from control.errors import NoSuchPod, PasserelleError, Refused, Unreachable
from control.keys import Keys
from control.models import Pod, PodId, PodState
from control.runpod.client import Access
from control.runpod.problems import ApiRetired, BadRequest, KeyRefused, NoCapacity
from control.runpod.provider import HostFull, RunPodProvider
from control.runpod.store import Store
from tests.control.runpod.conftest import A40, HF, TOKENS, order
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble

UP_S = 120.0


async def created(provider: RunPodProvider, name: str = "passerelle-1", **changes: object) -> Pod:
    wanted = order(**changes)
    return await provider.create(wanted, await provider.plan(wanted), name, lambda line: None)


async def test_the_life_of_a_pod(provider: RunPodProvider, clock: ManualClock, double: RunPodDouble) -> None:
    pod = await created(provider)
    assert (pod.state, pod.note) == (PodState.STARTING, "RunPod looks for a machine")
    assert (pod.name, pod.gpu, pod.price.per_hour, pod.ours) == ("passerelle-1", A40, 0.44, True)
    assert pod.url == f"https://{pod.id}-8080.proxy.runpod.net"
    notes = []
    for seconds in (6, 10, 30):
        clock.pass_(seconds)
        notes.append((await provider.get(pod.id)).note)
    assert notes[:2] == ["its container starts"] * 2
    assert notes[2].startswith("no container yet: its image is being pulled")
    clock.pass_(UP_S)
    pod = await provider.get(pod.id)
    assert (pod.state, pod.note, pod.data_center, pod.cuda) == (PodState.RUNNING, "", "EU-SE-1", "12.8")
    assert pod.ssh is not None
    first_port = pod.ssh.port

    await provider.stop(pod.id)
    assert (await provider.get(pod.id)).state is PodState.STOPPING, "still RUNNING at RunPod"
    clock.pass_(10)
    stopped = await provider.get(pod.id)
    assert (stopped.state, stopped.started_at, stopped.ssh) == (PodState.EXITED, None, None)
    await provider.stop(pod.id)

    started = await provider.start(pod.id)
    assert started.state is PodState.STARTING
    with pytest.raises(Refused, match="running already"):
        await provider.start(pod.id)
    clock.pass_(UP_S)
    again = await provider.get(pod.id)
    assert again.ssh is not None
    assert again.ssh.port != first_port
    await provider.terminate(pod.id)
    assert await provider.list() == ()
    assert (await provider.get(pod.id)).state is PodState.TERMINATED
    await provider.terminate(pod.id)
    assert len(double.asked("POST", "/v2/pods")) == 1


async def test_the_request_that_creates(provider: RunPodProvider, double: RunPodDouble) -> None:
    await created(provider, cuda=("12.8",), volume_gb=20, cmd=("sh", "-c", 'echo "a b" $X'), hub="hf://me/pods")
    sent = double.asked("POST", "/v2/pods")[0]
    assert sent.body["gpu"] == {"id": A40, "count": 1, "allowedCudaVersions": ["12.8"]}
    assert sent.body["disk"] == 150
    assert sent.body["ports"] == ["8080/http", "22/tcp"]
    assert sent.body["env"] == {
        "PASSERELLE_CLIENT_TOKEN": TOKENS.client,
        "PASSERELLE_OPERATOR_TOKEN": TOKENS.operator,
        "PASSERELLE_HUB": "hf://me/pods",
        "HF_TOKEN": HF,
    }
    assert sent.body["args"] == '{"cmd": ["sh", "-c", "echo \\"a b\\" $X"]}'
    assert sent.headers["user-agent"].startswith("passerelle")


@pytest.mark.parametrize("fault", ["create_then_500", "create_then_lost"])
async def test_a_pod_that_was_made_and_not_answered_is_found_by_its_name(
    provider: RunPodProvider, double: RunPodDouble, fault: str
) -> None:
    setattr(double.cloud.faults, fault, 1)
    double.cloud.faults.unlisted_s = 20.0
    pod = await created(provider, "passerelle-unique")
    assert pod.name == "passerelle-unique"
    assert await provider.tokens(pod.id) == TOKENS
    assert len(double.asked("POST", "/v2/pods")) == 1, "never twice"
    assert len(double.cloud.pods) == 1


async def test_a_creation_that_nobody_confirms_is_not_repeated(provider: RunPodProvider, double: RunPodDouble) -> None:
    double.cloud.faults.create_500 = 1
    with pytest.raises(Unreachable, match="did not say whether pod passerelle-x was made") as caught:
        await created(provider, "passerelle-x")
    assert "pod list" in caught.value.remedy
    assert len(double.asked("POST", "/v2/pods")) == 1


async def test_a_limit_is_waited_for_since_nothing_was_done(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    wanted = order()
    planned = await provider.plan(wanted)
    double.cloud.faults.limited = 2
    await provider.create(wanted, planned, "a", lambda line: None)
    assert clock.slept[:2] == [3.0, 3.0]
    double.cloud.faults.limited, double.cloud.faults.retry_after = 1, None
    await provider.list()
    assert clock.slept[2:] == [12.0], "without Retry-After, what the RateLimit header says of the window that is full"


async def test_fallback_over_types_and_data_centres_cheapest_first(
    provider: RunPodProvider, double: RunPodDouble
) -> None:
    double.cloud.gpus[A40].free = {}
    said: list[str] = []
    wanted = order("NVIDIA H200", A40, "NVIDIA RTX 6000 Ada Generation", data_centers=("us-il-1", "US-KS-2"))
    planned = await provider.plan(wanted)
    assert [attempt.offer.per_hour for attempt in planned] == [0.77, 0.77, 3.99, 3.99, 0.44, 0.44], "what is out: last"
    double.cloud.gpus["NVIDIA RTX 6000 Ada Generation"].free = {}
    pod = await provider.create(wanted, planned, "a", said.append)
    assert (pod.gpu, pod.price.per_hour) == ("NVIDIA H200", 3.99)
    assert double.cloud.pods[pod.id].data_center == "US-KS-2"
    assert said[0] == "asking for 1 × ada at 0.77 $/h, us-il-1 (1 of 6)"
    assert said[1].startswith("  no: There are no longer any instances")
    assert len(double.asked("POST", "/v2/pods")) == 4


async def test_nobody_has_room(provider: RunPodProvider, double: RunPodDouble) -> None:
    wanted = order(A40, "NVIDIA H200")
    planned = await provider.plan(wanted)
    for gpu in double.cloud.gpus.values():
        gpu.free = {}
    with pytest.raises(NoCapacity, match="no machine is free now") as caught:
        await provider.create(wanted, planned, "a", lambda line: None)
    assert "a40" in caught.value.message
    assert "h200" in caught.value.message


async def test_a_pool_that_the_key_may_not_use_is_skipped(provider: RunPodProvider, double: RunPodDouble) -> None:
    double.cloud.faults.pools = frozenset({A40})
    wanted = order(A40, "NVIDIA H200")
    pod = await provider.create(wanted, await provider.plan(wanted), "a", lambda line: None)
    assert pod.gpu == "NVIDIA H200"


async def test_a_400_without_a_reason_on_every_candidate_is_a_bad_request(
    provider: RunPodProvider, double: RunPodDouble
) -> None:
    double.cloud.faults.refused = frozenset({A40, "NVIDIA H200"})
    wanted = order(A40, "NVIDIA H200")
    planned = await provider.plan(wanted)
    with pytest.raises(BadRequest, match="takes this request for no machine"):
        await provider.create(wanted, planned, "a", lambda line: None)
    assert len(double.asked("POST", "/v2/pods")) == 2


async def test_a_body_that_breaks_the_rules_is_refused_at_once(provider: RunPodProvider, double: RunPodDouble) -> None:
    wanted = order(A40, "NVIDIA H200")
    planned = await provider.plan(wanted)
    with pytest.raises(BadRequest, match="HTTP 422"):
        await provider.create(wanted, planned, "", lambda line: None)
    assert len(double.asked("POST", "/v2/pods")) == 1


async def test_404_right_after_creation_is_not_absence(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    double.cloud.faults.unfound_s = double.cloud.faults.unlisted_s = 50.0
    pod = await created(provider)
    for _ in range(4):
        clock.pass_(11)
        seen = await provider.get(pod.id)
        assert (seen.state, seen.note) == (PodState.STARTING, "RunPod does not list it yet")
    assert [p.id for p in await provider.list()] == [pod.id]
    clock.pass_(20)
    assert (await provider.get(pod.id)).note != "RunPod does not list it yet"


async def test_an_empty_or_failed_list_is_unknown_not_gone(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S + 60)
    double.cloud.faults.empty_lists = 1
    assert [(p.id, p.state) for p in await provider.list()] == [(pod.id, PodState.RUNNING)]
    double.cloud.faults.failing_lists = 3
    (seen,) = await provider.list()
    assert (seen.id, seen.state) == (pod.id, PodState.UNKNOWN)
    assert "HTTP 500" in seen.note
    assert seen.url == pod.url


async def test_a_pod_that_the_console_removed_is_gone_only_after_two_looks(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S + 60)
    await provider.get(pod.id)
    moved = double.cloud.migrate(pod.id)
    first = await provider.get(pod.id)
    assert (first.state, first.started_at is not None) == (PodState.UNKNOWN, True)
    listed = {p.id: p for p in await provider.list()}
    assert listed[pod.id].state is PodState.UNKNOWN
    assert listed[PodId(moved.id)].ours is False
    clock.pass_(30)
    last = await provider.get(pod.id)
    assert (last.state, last.note) == (
        PodState.TERMINATED,
        "removed elsewhere: RunPod does not know it any more",
    )
    adopted = await provider.adopt(PodId(moved.id))
    assert adopted.ours
    assert await provider.tokens(adopted.id) == TOKENS


async def test_running_without_a_container_is_not_up(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    double.cloud.faults.no_runtime = True
    pod = await created(provider)
    clock.pass_(25 * 60)
    seen = await provider.get(pod.id)
    assert (seen.state, seen.ssh) == (PodState.STARTING, None)
    assert seen.note.startswith("no container after 25 min: remove it")
    assert spent(seen.spans, clock.now()).compute == pytest.approx(0.44 * 25 / 60), "and it costs all the while"


async def test_error_is_a_state_of_its_own(provider: RunPodProvider, double: RunPodDouble, clock: ManualClock) -> None:
    double.cloud.faults.broken = True
    pod = await created(provider)
    clock.pass_(UP_S)
    assert (await provider.get(pod.id)).state is PodState.ERROR
    clock.pass_(3600)
    assert spent((await provider.get(pod.id)).spans, clock.now()).compute > 0.4


async def test_the_ssh_port_of_the_run_before_is_not_given_out(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S)
    await provider.get(pod.id)
    await provider.stop(pod.id)
    clock.pass_(10)
    await provider.get(pod.id)
    double.cloud.faults.stale_ssh_s = 40.0
    await provider.start(pod.id)
    clock.pass_(100)
    stale = await provider.get(pod.id)
    assert (stale.state, stale.ssh, stale.note) == (
        PodState.RUNNING,
        None,
        "its SSH port is still that of the run before",
    )
    clock.pass_(40)
    fresh = await provider.get(pod.id)
    assert fresh.ssh is not None
    assert fresh.ssh.port == double.cloud.pods[pod.id].port


async def stopped(provider: RunPodProvider, clock: ManualClock) -> Pod:
    pod = await created(provider)
    clock.pass_(UP_S)
    await provider.stop(pod.id)
    clock.pass_(10)
    return await provider.get(pod.id)


async def test_a_full_host_offers_to_make_it_anew(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await stopped(provider, clock)
    double.cloud.faults.host_full = True
    with pytest.raises(HostFull, match="not enough free GPUs") as caught:
        await provider.start(pod.id)
    assert f"pod create --like {pod.id}" in caught.value.remedy
    assert (await provider.get(pod.id)).state is PodState.EXITED
    wanted = await provider.order_like(pod.id, ())
    assert (wanted.gpus, wanted.image, wanted.disk_gb, wanted.count) == ((A40,), "vllm/vllm-openai:v0.27.1", 150, 1)
    assert dict(wanted.env) == {"HF_TOKEN": HF}, "its tokens are made anew"


async def test_a_resume_without_gpu_is_stopped_again(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await stopped(provider, clock)
    double.cloud.faults.resume_without_gpu = True
    with pytest.raises(HostFull, match="came back with 0 of its 1 GPUs"):
        await provider.start(pod.id)
    clock.pass_(10)
    assert double.cloud.status(double.cloud.pods[pod.id]) == "EXITED"


async def test_a_stop_that_did_nothing_is_seen_not_to_have_worked(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S)
    double.cloud.faults.stop_ignored = 1
    await provider.stop(pod.id)
    clock.pass_(70)
    seen = await provider.get(pod.id)
    assert (seen.state, seen.note) == (PodState.STOPPING, "still RUNNING, 70 s after its stop")
    await provider.stop(pod.id)
    clock.pass_(10)
    assert (await provider.get(pod.id)).state is PodState.EXITED


async def test_pages_are_followed_if_there_are_any(provider: RunPodProvider, double: RunPodDouble) -> None:
    ids = [(await created(provider, f"p{number}")).id for number in range(4)]
    double.cloud.faults.page = 2
    assert {pod.id for pod in await provider.list()} == set(ids)
    assert len(double.asked("GET", "/v2/pods")) == 2


async def test_what_stands_before_runpod_is_not_taken_for_its_word(
    provider: RunPodProvider, double: RunPodDouble
) -> None:
    pod = await created(provider)
    double.cloud.faults.gateway = 2
    assert (await provider.get(pod.id)).id == pod.id, "a read is tried again"
    double.cloud.faults.gateway = 3
    with pytest.raises(Unreachable, match="HTTP 502, 502 Bad Gateway"):
        await provider.get(pod.id)


async def test_a_bad_key_and_a_retired_api(provider: RunPodProvider, double: RunPodDouble, tmp_path: Path) -> None:
    stranger = RunPodProvider(Access("rpa_wrong", double.url), Store(tmp_path), Keys(tmp_path), ManualClock())
    with pytest.raises(KeyRefused) as caught:
        await stranger.list()
    assert "rpa_wrong" not in f"{caught.value!r} {caught.value.remedy} {stranger.access!r}"
    double.cloud.faults.retired = True
    with pytest.raises(ApiRetired, match="410"):
        await provider.list()


async def test_nothing_listens(keys: Keys, tmp_path: Path) -> None:
    nobody = RunPodProvider(Access("k", "http://127.0.0.1:9"), Store(tmp_path), keys, ManualClock())
    with pytest.raises(Unreachable, match="cannot reach RunPod"):
        await nobody.list()


async def test_a_pod_that_is_not_there(provider: RunPodProvider) -> None:
    with pytest.raises(NoSuchPod):
        await provider.get(PodId("nosuchpod"))
    with pytest.raises(NoSuchPod):
        await provider.stop(PodId("nosuchpod"))
    with pytest.raises(NoSuchPod, match="no pod id"):
        await provider.get(PodId("../v2/account"))
    with pytest.raises(Refused, match="not on this machine"):
        await provider.tokens(PodId("nosuchpod"))


async def test_a_pod_of_the_account_that_is_not_ours(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    body = {"name": "other", "image": "x", "gpu": {"id": A40, "count": 1}, "disk": 5}
    other = PodId(double.cloud.create(body).id)
    (seen,) = await provider.list()
    assert (seen.id, seen.ours) == (other, False)
    with pytest.raises(Refused, match="has no PASSERELLE_CLIENT_TOKEN"):
        await provider.adopt(other)
    await provider.stop(other)
    clock.pass_(10)
    assert (await provider.get(other)).state is PodState.EXITED
    await provider.terminate(other)
    assert double.cloud.pods[other].terminated


async def test_bills_come_when_they_come(provider: RunPodProvider, double: RunPodDouble, clock: ManualClock) -> None:
    pod = await created(provider)
    assert await provider.bill(pod.id) == ()
    clock.pass_(5 * 3600)
    charged = await provider.bill(pod.id)
    assert len(charged) == 3
    assert charged[1].amount == pytest.approx(0.44)
    assert charged[0].end == charged[1].start


async def test_the_log_of_a_pod_goes_on_where_it_broke_off(provider: RunPodProvider, double: RunPodDouble) -> None:
    pod = await created(provider)
    double.cloud.lines = [f"line {number}" for number in range(6)]
    assert [line.text async for line in provider.log_lines(pod.id, 2, follow=False)] == ["line 4", "line 5"]
    double.cloud.faults.log_cut_after = 3
    got: list[str] = []
    async for line in provider.log_lines(pod.id, 100, follow=True):
        got.append(line.text)
        if len(got) == 6:
            break
    assert got == double.cloud.lines
    with pytest.raises(NoSuchPod):
        [line async for line in provider.log_lines(PodId("nosuchpod"), 1, follow=False)]


FAULTS = ["create_then_lost", "create_500", "gateway", "limited", "retired", "pools"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_secret_in_a_traceback(provider: RunPodProvider, double: RunPodDouble, fault: str) -> None:
    wanted = order()
    planned = await provider.plan(wanted)
    double.cloud.faults.failing_lists = 1000
    value = {"retired": True, "pools": frozenset({A40})}.get(fault, 1000)
    setattr(double.cloud.faults, fault, value)
    with pytest.raises(PasserelleError) as caught:
        await provider.create(wanted, planned, "a", lambda line: None)
    text = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=False).format())
    said = f"{text} {caught.value!r} {caught.value.remedy} {wanted!r} {planned!r} {provider.access!r}"
    assert not [secret for secret in (KEY, HF, TOKENS.client, TOKENS.operator) if secret in said]


@pytest.mark.parametrize("trouble", ["key", "nobody", "limit"])
async def test_a_stop_that_was_not_taken_is_not_called_stopping(
    trouble: str, provider: RunPodProvider, double: RunPodDouble, clock: ManualClock, tmp_path: Path
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S * 2)
    access = {"key": Access("rpa_wrong", double.url), "nobody": Access(KEY, "http://127.0.0.1:9")}
    other = RunPodProvider(access.get(trouble, provider.access), Store(tmp_path), Keys(tmp_path), clock)
    for call in (other.stop, other.terminate):
        double.cloud.faults.limited = 99 if trouble == "limit" else 0
        with pytest.raises(PasserelleError):
            await call(pod.id)
        double.cloud.faults.limited = 0
        record = Store(tmp_path).load(pod.id)
        assert (record.stop_asked_at, record.terminate_asked_at) == (None, None)
        assert (await provider.get(pod.id)).state is PodState.RUNNING


async def test_a_stop_that_may_have_been_heard_is_stopping_until_it_is_seen(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S * 2)
    double.cloud.faults.gateway = 3
    with pytest.raises(Unreachable, match="HTTP 502"):
        await provider.stop(pod.id)
    assert (await provider.get(pod.id)).state is PodState.STOPPING


async def test_a_removal_whose_answer_is_lost_is_found_out(
    provider: RunPodProvider, double: RunPodDouble, clock: ManualClock
) -> None:
    pod = await created(provider)
    clock.pass_(UP_S * 2)
    double.cloud.remove(double.cloud.pods[pod.id])
    double.cloud.faults.gateway = 3
    await provider.terminate(pod.id)
    assert (await provider.get(pod.id)).state is PodState.TERMINATED
