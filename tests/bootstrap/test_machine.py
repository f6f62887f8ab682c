"""Histories as tables, and properties over any order of events."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.machine import (
    BRIDGE,
    ENGINE,
    Action,
    Event,
    Exited,
    Policy,
    Probed,
    RestartRequested,
    Service,
    Spawned,
    StopRequested,
    Tick,
    backoff_s,
    step,
)

SPAWN = Action("spawn")


def kill(pid: int) -> Action:
    return Action("kill", pid)


def terminate(pid: int) -> Action:
    return Action("terminate", pid)


def play(service: Service, *history: tuple[float, Event]) -> tuple[Service, list[Action]]:
    """Feed a history; the last state, and all actions."""
    actions: list[Action] = []
    for now, event in history:
        service, asked = step(service, event, now)
        actions += asked
    return service, actions


def serving(policy: Policy, pid: int = 10, at: float = 0.0) -> Service:
    service, _ = play(Service(policy), (at, RestartRequested()), (at, Spawned(pid)), (at, Probed(pid, None)))
    assert service.phase == "serving"
    return service


ENGINE_UP = serving(ENGINE)
BRIDGE_UP = serving(BRIDGE)


@pytest.mark.parametrize(
    ("start", "history", "phase", "actions"),
    [
        (Service(ENGINE), [(0.0, RestartRequested())], "starting", [SPAWN]),
        # A good run that ends is started again at once.
        (ENGINE_UP, [(60.0, Exited(10, "exit code 1"))], "starting", [SPAWN]),
        # So is the first death ever, however early; the second waits.
        (BRIDGE_UP, [(1.0, Exited(10, "x"))], "starting", [SPAWN]),
        (BRIDGE_UP, [(1.0, Exited(10, "x")), (1.0, Spawned(11)), (2.0, Exited(11, "x"))], "backoff", [SPAWN]),
        # Failed probes are forgiven, three of the bridge in a row are not; those of the engine are not counted.
        (BRIDGE_UP, [(1.0, Probed(10, "t")), (2.0, Probed(10, None)), (3.0, Probed(10, "t"))], "serving", []),
        (BRIDGE_UP, [(float(at), Probed(10, "t")) for at in range(1, 3)], "serving", []),
        (BRIDGE_UP, [(float(at), Probed(10, "t")) for at in range(1, 4)], "serving", [kill(10)]),
        (ENGINE_UP, [(float(at), Probed(10, "t")) for at in range(1, 99)], "serving", []),
        # A probe that was meant for another process says nothing of this one.
        (BRIDGE_UP, [(float(at), Probed(9, "t")) for at in range(1, 9)], "serving", []),
        # Restart: the bridge's old process drains while the new one starts; the engine's must be gone first.
        (BRIDGE_UP, [(1.0, RestartRequested())], "starting", [terminate(10), SPAWN]),
        (ENGINE_UP, [(1.0, RestartRequested())], "stopping", [terminate(10)]),
        (ENGINE_UP, [(1.0, RestartRequested()), (2.0, Exited(10, "x"))], "starting", [terminate(10), SPAWN]),
        (ENGINE_UP, [(1.0, RestartRequested()), (11.0, Tick())], "stopping", [terminate(10), kill(10)]),
        (ENGINE_UP, [(1.0, RestartRequested()), (2.0, RestartRequested())], "stopping", [terminate(10)]),
        # The start has its limit.
        (
            Service(BRIDGE),
            [(0.0, RestartRequested()), (0.0, Spawned(10)), (19.0, Tick())],
            "starting",
            [SPAWN],
        ),
        (
            Service(BRIDGE),
            [(0.0, RestartRequested()), (0.0, Spawned(10)), (20.0, Tick())],
            "starting",
            [SPAWN, kill(10)],
        ),
        # What cannot be started is a death like any other.
        (
            Service(ENGINE),
            [(0.0, RestartRequested()), (0.0, Exited(None, "x")), (0.0, Exited(None, "x"))],
            "backoff",
            [SPAWN, SPAWN],
        ),
        # A process that outlives a restart or a stop is killed, and so is what drains for too long.
        (ENGINE_UP, [(1.0, StopRequested(3.0)), (4.0, Tick())], "stopping", [terminate(10), kill(10)]),
        (BRIDGE_UP, [(0.0, RestartRequested()), (900.0, Tick())], "starting", [terminate(10), SPAWN, kill(10)]),
        # After a stop nothing is started.
        (
            ENGINE_UP,
            [(1.0, StopRequested(3.0)), (2.0, Exited(10, "x")), (3.0, RestartRequested())],
            "stopped",
            [terminate(10)],
        ),
        # A stop during a restart wins over it.
        (
            ENGINE_UP,
            [(1.0, RestartRequested()), (2.0, StopRequested(3.0)), (3.0, Exited(10, "x"))],
            "stopped",
            [terminate(10)],
        ),
        # Stopped is said only when the draining process is gone too.
        (
            BRIDGE_UP,
            [(1.0, RestartRequested()), (1.0, Spawned(11)), (2.0, StopRequested(3.0)), (3.0, Exited(11, "x"))],
            "stopping",
            [terminate(10), SPAWN, terminate(11)],
        ),
        (
            BRIDGE_UP,
            [
                (1.0, RestartRequested()),
                (1.0, Spawned(11)),
                (2.0, StopRequested(3.0)),
                (3.0, Exited(11, "x")),
                (5.0, Tick()),
                (5.1, Exited(10, "x")),
            ],
            "stopped",
            [terminate(10), SPAWN, terminate(11), kill(10)],
        ),
    ],
)
def test_histories(start: Service, history: list[tuple[float, Event]], phase: str, actions: list[Action]) -> None:
    service, asked = play(start, *history)
    assert (service.phase, asked) == (phase, actions)


def test_a_death_says_how_and_a_killing_says_why() -> None:
    killed, _ = play(BRIDGE_UP, *((float(at), Probed(10, "no answer in 3 s")) for at in range(1, 4)))
    dead, _ = play(killed, (3.1, Exited(10, "killed by SIGKILL")))
    assert dead.last_exit == "did not answer 3 probes in a row (no answer in 3 s)"
    assert play(BRIDGE_UP, (1.0, Exited(10, "killed by SIGKILL")))[0].last_exit == "killed by SIGKILL"
    asked_for, _ = play(ENGINE_UP, (1.0, RestartRequested()), (2.0, Exited(10, "exit code 0")))
    assert (asked_for.last_exit, asked_for.starts) == (None, 2)


def test_the_engine_is_given_up_after_six_deaths_without_an_answer_and_a_restart_by_hand_forgives() -> None:
    service, _ = play(Service(ENGINE), (0.0, RestartRequested()))
    now, waits = 0.0, []
    for pid in range(100, 106):
        service, _ = play(service, (now, Spawned(pid)), (now + 1, Exited(pid, "exit code 1")))
        if service.phase == "backoff":
            waits.append(service.deadline - (now + 1))
            now = service.deadline
            service, _ = play(service, (now, Tick()))
    assert (service.phase, service.starts, waits) == ("fatal", 6, [0.5, 1.0, 2.0, 4.0])
    assert play(service, (1e6, Tick()))[1] == []
    again, actions = play(service, (1e6, RestartRequested()))
    assert (again.phase, actions, again.barren) == ("starting", [SPAWN], 0)


def test_an_answer_in_between_keeps_the_engine_from_being_given_up() -> None:
    service = ENGINE_UP
    for pid in range(10, 40):
        now = pid * 100.0
        service = replace(service, phase="serving", pid=pid, since=now, deadline=math.inf)
        service, _ = play(service, (now, Probed(pid, None)), (now + 1, Exited(pid, "x")), (now + 50, Tick()))
        service, _ = play(service, (now + 50, Spawned(pid + 1)), (now + 51, Probed(pid + 1, None)))
        assert service.phase == "serving"


@settings(deadline=None)
@given(st.integers(1, 10_000))
def test_backoff_grows_to_its_ceiling(failures: int) -> None:
    assert 0.0 <= backoff_s(failures) <= backoff_s(failures + 1) <= 30.0


@dataclass
class World:
    """The outside, as an adversary that keeps the contract: a spawn is answered at once, a process exits once."""

    service: Service
    now: float = 0.0
    broken: bool = False
    living: set[int] = field(default_factory=set)
    retired: set[int] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)
    next_pid: int = 1
    stopping: bool = False

    def post(self, event: Event) -> None:
        self.service, actions = step(self.service, event, self.now)
        for action in actions:
            if action.do == "spawn":
                assert not self.stopping, "spawned after StopRequested"
                assert action is actions[-1]
                self.spawn()
                return
            assert action.pid in self.living
            if action.do == "kill":
                self.killed.add(action.pid)
            elif self.service.policy.drain_limit_s and not self.stopping:
                self.retired.add(action.pid)

    def spawn(self) -> None:
        if self.broken:
            self.post(Exited(None, "no such file"))
            return
        self.living.add(self.next_pid)
        self.next_pid += 1
        assert len(self.living - self.retired) == 1, "two processes that do not drain"
        self.post(Spawned(self.next_pid - 1))

    def do(self, choice: str, pick: int) -> None:
        pids = sorted(self.living)
        pid = pids[pick % len(pids)] if pids else 0
        match choice:
            case "restart":
                self.post(RestartRequested())
            case "stop":
                self.stopping = True
                self.post(StopRequested(3.0))
            case "tick":
                self.now += pick / 4
                self.post(Tick())
            case "break" | "mend":
                self.broken = choice == "break"
            case "exit" if pids:
                self.exit(pid)
            case "ok":
                self.post(Probed(pid, None))
            case "failed":
                self.post(Probed(pid, "no answer"))

    def exit(self, pid: int) -> None:
        self.living.discard(pid)
        self.post(Exited(pid, "exit code 1"))


CHOICES = ("restart", "restart", "stop", "tick", "break", "mend", "exit", "ok", "ok", "failed")
scripts = st.lists(st.tuples(st.sampled_from(CHOICES), st.integers(0, 120)), max_size=80)
policies = st.sampled_from([BRIDGE, ENGINE, replace(BRIDGE, max_deaths=3), replace(ENGINE, failed_probes=1)])


@settings(max_examples=400, deadline=None)
@given(policies, scripts)
def test_whatever_happens_one_process_at_most_no_spawn_after_a_stop_and_ticks_lead_to_stopped(
    policy: Policy, script: list[tuple[str, int]]
) -> None:
    world = World(Service(policy))
    for choice, pick in script:
        world.do(choice, pick)
    world.do("stop", 0)
    # From here on the world is only fair: what was killed dies. Nothing else helps.
    for _ in range(200):
        for pid in sorted(world.killed & world.living):
            world.exit(pid)
        world.do("tick", 4)
    assert (world.service.phase, world.living) == ("stopped", set())


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 9.9), min_size=2, max_size=40), st.booleans())
def test_backoff_never_shrinks_while_no_run_is_good(lives: list[float], answers: bool) -> None:
    service, _ = play(Service(BRIDGE), (0.0, RestartRequested()))
    now, last = 0.0, 0.0
    for pid, life in enumerate(lives, start=1):
        service, _ = play(service, (now, Spawned(pid)))
        if answers:
            service, _ = play(service, (now, Probed(pid, None)))
        service, _ = play(service, (now + life, Exited(pid, "x")))
        wait = service.deadline - (now + life) if service.phase == "backoff" else 0.0
        assert wait >= last - 1e-9
        last, now = wait, now + life + wait
        if wait:
            service, _ = play(service, (now, Tick()))
