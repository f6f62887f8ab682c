"""`passerelle config publish | edit | rollback`, on a folder and on the Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import pytest

from bootstrap.spec import parse
from control import cli_publish, publish
from control.cli import run
from control.draft import code_of, serial_of
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
    assert "has changed" in err or "published to since" in err
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


def test_progress_says_each_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    say = cli_publish._progress()
    for word in ("a", "a", "b", "a"):
        say(word)
    assert capsys.readouterr().err.split() == ["a", "b", "a"]
    assert run(["config", "publish"], None) == 64
