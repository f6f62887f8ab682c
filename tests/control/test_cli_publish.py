"""`passerelle config publish | edit | rollback`, on a folder and on the Hub."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bootstrap.spec import parse
from control import publish
from control.draft import code_of, serial_of
from control.local.provider import LocalProvider, Options
from tests.control.publishing import OPERATOR, signed
from tests.control.publishing_pod import POD, Cli, stopped_pod, text
from tests.doubles.hub import HubDouble

REPO = "datasets/alice/pods"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    for name in ("RUNPOD_API_KEY", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    stopped_pod(tmp_path)
    return Cli(tmp_path, capsys)


def test_publish_signs_and_counts(cli: Cli) -> None:
    said = cli.good("config", "publish", cli.file(text()), "--pod", POD)
    assert "published as serial 1" in said
    assert "no pod runs" in said
    values = cli.values("config", "publish", cli.file(text(8)), "--pod", POD)
    assert (values["serial"], values["action"], values["applied"]) == (2, "restart engine", None)
    body = (cli.hub / "pod.toml").read_bytes()
    assert parse(body.decode()).serve.images == 8
    assert (cli.hub / "pod.toml.sig").read_bytes() == signed(body)
    assert b"# mine" in body
    assert not (cli.hub / "passerelle.pyz.b64").exists()


def test_a_wrong_file_publishes_nothing(cli: Cli) -> None:
    code, out, err = cli("config", "publish", cli.file("[serve]\n"), "--pod", POD)
    assert (code, out) == (64, "")
    assert "my.toml" in err
    assert list(cli.hub.iterdir()) == []


def test_rollback_is_a_publish_of_an_older_text(cli: Cli) -> None:
    code, _, err = cli("config", "rollback", "--pod", POD)
    assert code == 2
    assert "no version before the newest" in err
    for images in (4, 8, 2):
        cli.good("config", "publish", cli.file(text(images)), "--pod", POD)
    assert "published as serial 4" in cli.good("config", "rollback", "--pod", POD)
    assert parse((cli.hub / "pod.toml").read_text()).serve.images == 8
    first = json.loads(cli.good("config", "history", "--pod", POD, "--json"))[-1]["commit"]
    cli.good("config", "rollback", first[:5], "--pod", POD)
    body = (cli.hub / "pod.toml").read_bytes()
    assert (parse(body.decode()).serve.images, serial_of(body)) == (4, 5)
    assert (cli.hub / "pod.toml.sig").read_bytes() == signed(body)
    code, _, err = cli("config", "rollback", "99", "--pod", POD)
    assert code == 2
    assert "no version '99'" in err


def test_a_version_is_named_by_its_number_or_its_beginning(cli: Cli) -> None:
    for images in range(1, 13):
        cli.good("config", "publish", cli.file(text(images)), "--pod", POD)
    cli.good("config", "rollback", "1", "--pod", POD)
    assert parse((cli.hub / "pod.toml").read_text()).serve.images == 1
    newest = json.loads(cli.good("config", "history", "--pod", POD, "--json"))[0]["commit"]
    assert newest.startswith("13-")
    code, _, err = cli("config", "rollback", "", "--pod", POD)
    assert code == 64
    assert "begins 13 versions" in err


def editor(cli: Cli, monkeypatch: pytest.MonkeyPatch, program: str, answers: str = "y") -> None:
    """An editor that is a line of Python on `text`, and the answers to what is asked."""
    script = cli.home / "editor.py"
    body = f"import sys, pathlib; p = pathlib.Path(sys.argv[1]); text = p.read_text(); p.write_text({program})\n"
    script.write_text(body)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    given = iter(answers)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: next(given))


@pytest.mark.process
def test_edit_publishes_what_the_editor_made(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.good("config", "publish", cli.file(text()), "--pod", POD)
    editor(cli, monkeypatch, "text.replace('images = 4', 'images = 8')")
    said = cli.good("config", "edit", "--pod", POD)
    assert "+images = 8" in said
    assert "plan: restart engine" in said
    assert parse((cli.hub / "pod.toml").read_text()).serve.images == 8


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "answers", "code"),
    [
        ("text", "", 0),
        ("text.replace('images = 4', 'images = 8')", "n", 130),
        ("text.replace('images', 'imagse')", "n", 130),
    ],
)
def test_an_edit_that_is_nothing_or_not_wanted_or_wrong_publishes_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, program: str, answers: str, code: int
) -> None:
    cli.good("config", "publish", cli.file(text()), "--pod", POD)
    before = (cli.hub / "pod.toml").read_bytes()
    editor(cli, monkeypatch, program, answers)
    assert cli("config", "edit", "--pod", POD)[0] == code
    assert (cli.hub / "pod.toml").read_bytes() == before


@pytest.mark.process
def test_an_edit_shows_what_another_published_meanwhile(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.good("config", "publish", cli.file(text()), "--pod", POD)
    hub = str(cli.hub / "pod.toml")
    other = f"pathlib.Path({hub!r}).write_text(text.replace('images = 4', 'images = 6'))"
    editor(cli, monkeypatch, f"[{other}, text.replace('images = 4', 'images = 8')][1]")
    code, _, err = cli("config", "edit", "--pod", POD)
    assert code == 2
    assert "take their change in" in err
    assert parse((cli.hub / "pod.toml").read_text()).serve.images == 6


def test_another_publisher_between_look_and_send_is_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.good("config", "publish", cli.file(text()), "--pod", POD)
    send = publish.Publisher.send

    async def late(self: publish.Publisher, draft: object) -> str:
        (cli.hub / "pod.toml").write_text(text(6))
        return await send(self, draft)  # type: ignore[arg-type]

    monkeypatch.setattr(publish.Publisher, "send", late)
    code, _, err = cli("config", "publish", cli.file(text(8)), "--pod", POD)
    assert code == 2
    assert "+images = 6" in err
    assert "somebody else published since it was read" in err
    assert parse((cli.hub / "pod.toml").read_text()).serve.images == 6


@pytest.mark.process
def test_the_hub(cli: Cli, hub: HubDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    hub.seed(REPO, {})
    to_the_hub = ("--pod", POD, "--hub", "hf://datasets/alice/pods")
    first = cli.values("config", "publish", cli.file(text()), *to_the_hub)
    assert first["files"] == ["passerelle.pyz.b64", "pod.toml", "pod.toml.sig"]
    files = hub.files(REPO)
    assert files["pod.toml.sig"] == signed(files["pod.toml"])
    code = base64.b64decode(files["passerelle.pyz.b64"])
    assert code_of(files["pod.toml"]) == hashlib.sha256(code).hexdigest()

    second = cli.values("config", "publish", cli.file(text(8)), *to_the_hub)
    assert second["files"] == ["pod.toml", "pod.toml.sig"]
    assert (second["serial"], second["commit"]) == (2, hub.head(REPO))
    assert hub.titles(REPO)[:2] == ["serial 2: images = 8", "serial 1"]
    cli.good("config", "rollback", *to_the_hub)
    assert parse(hub.files(REPO)["pod.toml"].decode()).serve.images == 4
    assert code_of(hub.files(REPO)["pod.toml"]) == hashlib.sha256(code).hexdigest()


@pytest.mark.process
def test_no_token_is_ever_said(cli: Cli, hub: HubDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_wrongsecret")
    code, out, err = cli("config", "publish", cli.file(text()), "--pod", POD, "--hub", "hf://datasets/alice/pods")
    assert code == 2
    assert "does not know this token" in err
    assert "hf_wrongsecret" not in out + err
    assert OPERATOR not in out + err


def test_when_idle_without_a_pod_is_said(cli: Cli) -> None:
    code, _, err = cli("config", "publish", cli.file(text()), "--pod", POD, "--when-idle")
    assert code == 3
    assert "no pod runs" in err
    assert not (cli.hub / "pod.toml").exists()


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """With an embedded pod that runs."""
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSERELLE_KEYRING", "off")
    provider = LocalProvider(tmp_path)
    pod = asyncio.run(provider.create(Options(sim=("--sim-load-seconds", "0", "--sim-decode-base-ms", "40"))))
    yield Cli(tmp_path, capsys)
    asyncio.run(provider.terminate(pod.id))


def published_text(live: Cli) -> str:
    (folder,) = (live.home / "pods").iterdir()
    return (folder / "hub" / "pod.toml").read_text()


def told(live: Cli, *argv: str) -> dict[str, object]:
    """Progress goes to stderr; the values are stdout's."""
    code, out, err = live(*argv, "--json")
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.process
def test_a_running_pod_takes_what_is_published_and_says_so(live: Cli) -> None:
    text = published_text(live)
    bridge = text.replace("ping_seconds = 15", "ping_seconds = 20")
    first = told(live, "config", "publish", live.file(bridge))
    assert (first["serial"], first["running_serial"], first["applied"]) == (2, 1, "reload bridge")
    second = told(live, "config", "publish", live.file(bridge.replace("concurrency = 32", "concurrency = 16")))
    assert (second["serial"], second["running_serial"], second["applied"]) == (3, 2, "restart engine")
    back = told(live, "config", "rollback")
    assert (back["serial"], back["applied"], back["reasons"]) == (
        4,
        "restart engine",
        ["[serve] concurrency: 16 -> 32"],
    )


@pytest.mark.process
def test_a_running_pod_that_refuses_says_why_and_keeps_what_it_runs(live: Cli) -> None:
    code, out, err = live("config", "publish", live.file(published_text(live)), "--code")
    assert code == 2, out + err
    assert "needs a new pod" in err
    assert "at its next start" in err
    values = told(live, "config", "publish", live.file(published_text(live)), "--wait", "0")
    assert values["running_serial"] == 1
    assert values["applied"] is None


@pytest.mark.process
def test_when_idle_waits_for_the_streams(live: Cli) -> None:
    provider = LocalProvider(live.home)
    (pod,) = asyncio.run(provider.list())
    token = asyncio.run(provider.tokens(pod.id)).client
    body = {"model": "qwen3-coder", "max_tokens": 150, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    ended: list[float] = []

    def talk() -> None:
        headers = {"authorization": f"Bearer {token}", "anthropic-version": "2023-06-01"}
        with httpx.stream("POST", f"{pod.url}/v1/messages", json=body, headers=headers, timeout=30) as answer:
            begun.set()
            answer.read()
        ended.append(time.monotonic())

    begun = threading.Event()
    thread = threading.Thread(target=talk)
    thread.start()
    assert begun.wait(20)
    text = published_text(live).replace("ping_seconds = 15", "ping_seconds = 20")
    code, out, err = live("config", "publish", live.file(text), "--when-idle")
    done = time.monotonic()
    thread.join()
    assert code == 0, err
    assert "waiting for 1 stream in flight" in err
    assert "in force: reload bridge" in out
    assert ended[0] <= done
