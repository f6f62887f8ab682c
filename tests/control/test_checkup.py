"""What `doctor` finds out: of folders and keys here, and of RunPod and the Hub over their doubles."""

from __future__ import annotations

from pathlib import Path

import pytest

from control import checkup, settings
from control.clock import Clock
from control.doctor import Check, Level
from control.settings import Settings
from control.ssh_keys import make_key
from tests.doubles.hub import HubDouble
from tests.doubles.runpod import KEY, RunPodDouble

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    for name in ("RUNPOD_API_KEY", "HF_TOKEN", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


async def looked(monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, Check]:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return {check.name: check for check in await checkup.everything()}


async def test_a_bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await looked(monkeypatch)
    assert {name for name, check in found.items() if check.level is Level.FAIL} == {"RUNPOD_API_KEY", "HF_TOKEN"}
    assert found["clock"].level is Level.WARN
    assert all(check.remedy for check in found.values() if check.level is not Level.OK)


async def test_everything_well(hub: HubDouble, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.holdings.add_repo("dataset", "alice/pods", True)
    hub.holdings.add_repo("dataset", "alice/pod-logs", True)
    key = home / "ssh_key"
    make_key(key)
    settings.save(Settings("hf://datasets/alice/pods", "hf://datasets/alice/pod-logs", str(key)))
    with RunPodDouble(Clock()) as runpod:
        found = await looked(
            monkeypatch,
            RUNPOD_API_KEY=KEY,
            RUNPOD_API_BASE_URL=runpod.url,
            HF_TOKEN="hf_writer",
            HF_ENDPOINT=hub.url,
        )
    for name in ("RUNPOD_API_KEY", "HF_TOKEN", "clock", "config store", "log mirror", "ssh key", "settings"):
        assert found[name].level is Level.OK, found[name]
    assert "may list pods (0)" in found["RUNPOD_API_KEY"].says
    assert "role write" in found["HF_TOKEN"].says
    said = repr(list(found.values()))
    assert KEY not in said
    assert "hf_writer" not in said


async def test_keys_that_are_not_known(hub: HubDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunPodDouble(Clock()) as runpod:
        found = await looked(
            monkeypatch,
            RUNPOD_API_KEY="rpa_planted_stranger",
            RUNPOD_API_BASE_URL=runpod.url,
            HF_TOKEN="hf_planted_stranger",
            HF_ENDPOINT=hub.url,
        )
    assert (found["RUNPOD_API_KEY"].level, found["HF_TOKEN"].level) == (Level.FAIL, Level.FAIL)
    assert "planted" not in repr(list(found.values()))


async def test_offline_is_no_fault_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.save(Settings(hub="hf://datasets/alice/pods"))
    found = await looked(
        monkeypatch, RUNPOD_API_KEY=KEY, RUNPOD_API_BASE_URL=NOBODY, HF_TOKEN="hf_writer", HF_ENDPOINT=NOBODY
    )
    for name in ("RUNPOD_API_KEY", "HF_TOKEN", "clock", "config store"):
        assert found[name].level is Level.WARN, found[name]
        assert "look again when online" in found[name].remedy


@pytest.mark.parametrize(
    ("made", "level"), [(Settings(hub="dir://{}"), Level.OK), (Settings(hub="dir://{}/none"), Level.FAIL)]
)
async def test_a_folder_as_store(made: Settings, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub").mkdir()
    settings.save(Settings(hub=(made.hub or "").format(tmp_path / "hub")))
    assert (await looked(monkeypatch))["config store"].level is level


async def test_settings_that_cannot_be_read_are_one_finding(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.path().write_text("hug = 'x'")
    found = await looked(monkeypatch)
    assert (found["settings"].level, "did you mean 'hub'?") == (Level.FAIL, found["settings"].remedy)


async def test_an_ssh_key_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.save(Settings(ssh_key="/nowhere/id_ed25519"))
    check = (await looked(monkeypatch))["ssh key"]
    assert (check.level, check.says) == (Level.FAIL, "/nowhere/id_ed25519: No such file or directory")
    settings.save(Settings(ssh_agent="/nowhere/agent"))
    assert "does not answer" in (await looked(monkeypatch))["ssh key"].says


def test_secrets_that_others_can_read(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.json"
    secrets.write_text("{}")
    secrets.chmod(0o644)
    check = checkup.folder(tmp_path)
    assert (check.level, check.remedy) == (Level.FAIL, f"chmod 600 {secrets}")
    secrets.chmod(0o600)
    assert checkup.folder(tmp_path).level is Level.OK


def test_a_folder_that_cannot_be_made() -> None:
    check = checkup.folder(Path("/proc/nowhere"))
    assert check.level is Level.FAIL
    assert "PASSERELLE_HOME" in check.remedy
