"""Before a start: what the machine is asked, patches done and undone, downloads. Programs are the test's scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bootstrap.errors import Problem
from bootstrap.keeper import Shop
from bootstrap.launches import Settings
from bootstrap.preparing import Preparing
from bootstrap.processes import Children
from bootstrap.spec import PodSpec, parse
from tests.bootstrap.shop import Bench, bench

pytestmark = pytest.mark.process

CONFIG = """
[serve]
model = "a"
[models.a]
repo = "x/a"
[models.b]
repo = "x/b"
[swap]
strategy = "sleep"
[preload]
models = ["b"]
"""
SPEC = parse(CONFIG)
# Answers for the engine's interpreter: what torch sees, the models' sizes, and each patch.
PYTHON = """#!/bin/sh
case "$3" in
  torch) cat "$0.torch" ;;
  size) echo '{"bytes": 1000, "cached": 0, "quantisation": null}' ;;
  *) echo "$3" >>"$0.steps"; [ "$3" = apply ] && echo applied || echo undone ;;
esac
"""


class Machine:
    def __init__(self, folder: Path, desk: Bench, children: Children) -> None:
        self.python, self.hf = folder / "python3", folder / "hf"
        self.torch, self.steps = folder / "python3.torch", folder / "python3.steps"
        self.script(folder / "vllm", "#!/bin/sh\n")
        self.script(self.python, PYTHON)
        self.torch.write_text('{"cuda": null, "count": 0, "error": null}', encoding="utf-8")
        environ = {"PATH": f"{folder}:/usr/bin:/bin"}
        settings = Settings(None, None, folder, folder / "b", "127.0.0.1", 0, 0, ("vllm",), environ)
        self.shop = Shop(children, desk.journal, desk.shop.tasks, desk.shop.clock)
        self.desk, self.preparing = desk, Preparing(settings, self.shop)

    def script(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    async def prepare(self, spec: PodSpec = SPEC, again: bool = False) -> None:
        await self.preparing.prepare(spec, "a", again=again)


@pytest.fixture
async def machine(tmp_path: Path, children: Children) -> AsyncIterator[Machine]:
    async with bench(tmp_path) as desk:
        yield Machine(tmp_path, desk, children)


async def test_a_machine_that_will_do(machine: Machine) -> None:
    await machine.prepare()
    verdict = machine.preparing.verdict
    assert verdict is not None
    assert verdict.go
    assert machine.preparing.gpus is None, "a CPU build misses none"
    assert "disk" in [check.name for check in verdict.checks]


async def test_a_machine_that_will_not_do_says_why_and_what_to_do(machine: Machine) -> None:
    machine.torch.write_text('{"cuda": "13.0", "count": 0, "error": null}', encoding="utf-8")
    with pytest.raises(Problem, match="there is no GPU: delete the pod and create another"):
        await machine.prepare()
    machine.torch.write_text('{"cuda": null, "count": 0, "error": null}', encoding="utf-8")
    await machine.prepare(again=True)
    assert machine.preparing.verdict is not None
    assert machine.preparing.verdict.go


async def test_a_host_without_sleep_mode_swaps_by_restart(machine: Machine) -> None:
    assert machine.preparing.affordable(SPEC) is SPEC
    await machine.prepare()
    affordable = machine.preparing.affordable(SPEC)
    assert affordable is not None
    assert affordable.swap.strategy == "restart"
    assert any("CPU build has no sleep mode" in text for _, text in machine.desk.said())


async def test_a_machine_is_asked_once_per_config_and_after_a_start_that_failed(machine: Machine) -> None:
    await machine.prepare()
    first = machine.preparing.verdict
    await machine.prepare()
    assert machine.preparing.verdict is first
    await machine.prepare(again=True)
    assert machine.preparing.verdict is not first


async def test_a_patch_is_checked_applied_and_undone_when_the_engine_does_not_come(machine: Machine) -> None:
    spec = parse(CONFIG.replace('repo = "x/a"', 'repo = "x/a"\npatches = { tokenizer-shim = "tok" }'))
    await machine.prepare(spec)
    await machine.prepare(spec)
    assert machine.steps.read_text(encoding="utf-8").split() == ["apply"]
    assert machine.preparing.patched == {"a: tokenizer-shim": "applied"}
    await machine.prepare(spec, again=True)
    await machine.prepare(spec, again=True)
    assert machine.steps.read_text(encoding="utf-8").split() == ["apply", "undo"]
    assert machine.preparing.patched == {"a: tokenizer-shim": "undone"}


async def test_a_patch_that_fails_is_reported_and_the_engine_is_tried_all_the_same(machine: Machine) -> None:
    machine.script(machine.python, PYTHON.replace("echo applied", "echo no network && exit 1"))
    spec = parse(CONFIG.replace('repo = "x/a"', 'repo = "x/a"\npatches = { tokenizer-shim = "tok" }'))
    await machine.prepare(spec)
    assert "not applied" in machine.preparing.patched["a: tokenizer-shim"]
    assert "no network" in machine.preparing.patched["a: tokenizer-shim"]


async def test_other_models_are_downloaded_once_and_what_is_on_disk_never(machine: Machine, tmp_path: Path) -> None:
    machine.script(machine.hf, f'#!/bin/sh\necho "$@" >>{tmp_path}/downloads\n')
    (tmp_path / "local").mkdir()
    spec = parse(CONFIG.replace('models = ["b"]', f'models = ["b", "{tmp_path}/local"]'))
    for _ in range(2):
        await machine.preparing.preload(spec, {})
    assert (tmp_path / "downloads").read_text(encoding="utf-8") == "download x/b\n"
    assert ("info", "preload: x/b is here") in machine.desk.said()


async def test_a_download_that_fails_is_said(machine: Machine) -> None:
    machine.script(machine.hf, "#!/bin/sh\necho 401 >&2; exit 1\n")
    await machine.preparing.preload(SPEC, {})
    assert any("preload: x/b: nice: exit code 1: 401" in text for _, text in machine.desk.said())
