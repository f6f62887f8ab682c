"""`passerelle pod create` as a user drives it, against the double."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bootstrap import seal
from bootstrap.spec import parse
from control import settings
from control.cli import run
from control.clock import Clock
from control.keys import Keys
from control.models import Account, PodId
from control.runpod.provider import RunPodProvider
from control.settings import Settings
from control.ssh_keys import make_key
from tests.doubles.hub import HubDouble
from tests.doubles.runpod import KEY, RunPodDouble

HF = "hf_planted_0003"
RENT = ["pod", "create", "--provider", "runpod", "--gpu", "a40", "--hub", "hf://datasets/me/pods"]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSERELLE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPodDouble]:
    with RunPodDouble(Clock()) as made:
        monkeypatch.setenv("RUNPOD_API_BASE_URL", made.url)
        monkeypatch.setenv("RUNPOD_API_KEY", KEY)
        monkeypatch.setenv("HF_TOKEN", HF)
        yield made
        assert made.violations == []


def has(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
    async def asked(self: RunPodProvider) -> Account:
        return account

    monkeypatch.setattr(RunPodProvider, "account", asked)


def test_rent_one(double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    has(monkeypatch, Account(50.0, 0.0, 80.0))
    monkeypatch.setenv("VL_CTX", "65536")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("MINE", "a b")
    argv = [*RENT, "--no-wait", "--json", "--budget", "5", "--env", "MINE", "--env", "X=1=2"]
    assert run(argv, None) == 0
    out, err = capsys.readouterr()
    made = json.loads(out)
    assert (made["provider"], made["state"], made["gpu"], made["budget"]) == ("runpod", "STARTING", "NVIDIA A40", 5.0)
    assert "asking for 1 × a40 at 0.44 $/h" in err
    assert f"config publish pod.toml --pod {made['id']}" in err
    sent = double.asked("POST", "/v2/pods")[0].body
    assert sent["env"]["HF_ENDPOINT"] == "http://127.0.0.1:9", "where its configuration was published"
    assert (sent["env"]["VL_CTX"], sent["env"]["MINE"], sent["env"]["X"]) == ("65536", "a b", "1=2")
    assert sent["env"]["PASSERELLE_HUB"] == f"hf://datasets/me/pods/{sent['name']}", "a folder of its own"
    tokens = Keys().tokens(PodId(made["id"]))
    assert tokens is not None
    assert sent["env"]["PASSERELLE_OPERATOR_TOKEN"] == tokens.operator
    assert json.loads(sent["args"])["entrypoint"] == ["python3", "-c"], "the pod's start command"


def test_it_lets_in_the_operators_ssh_key(
    double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    has(monkeypatch, Account(50.0, 0.0, 80.0))
    monkeypatch.setenv("HOME", str(home))
    assert run([*RENT, "--no-wait"], None) == 0
    assert "no SSH key of yours is known here" in capsys.readouterr().err
    line = make_key(home / "ssh_key")
    settings.save(Settings(ssh_key=str(home / "ssh_key")))
    assert run([*RENT, "--no-wait"], None) == 0
    assert "SSH key" not in capsys.readouterr().err
    without, sent = (seen.body["env"] for seen in double.asked("POST", "/v2/pods"))
    assert "PUBLIC_KEY" not in without
    assert sent["PUBLIC_KEY"] == line
    assert run([*RENT, "--dry-run"], None) == 0
    assert line in capsys.readouterr().out, "a public key is no secret"


def test_a_dry_run_shows_the_exact_request_without_secrets(
    double: RunPodDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENT, "--gpu", "ada", "--dry-run", "--dc", "eu-se-1", "--volume", "20"], None) == 0
    out = capsys.readouterr().out
    assert f"POST {double.url}/v2/pods" in out
    body = json.loads(out[out.index("{") : out.rindex("}") + 1])
    assert body["gpu"] == {"id": "NVIDIA A40", "count": 1}
    assert body["mounts"] == {"persistent": {"size": 20, "path": "/workspace"}}
    assert body["env"]["HF_TOKEN"] == f"••• ({len(HF)} characters)"
    assert "1 × ada at 0.77 $/h, EU-SE-1" in out
    assert HF not in out
    assert KEY not in out
    assert double.asked("POST", "/v2/pods") == []
    assert run(["pod", "create", "--dry-run"], None) == 0
    assert "nothing is rented" in capsys.readouterr().out


@pytest.mark.parametrize("account", [Account(0.40, 0.0, 80.0), Account(500.0, 79.9, 80.0)])
def test_too_little_money_rents_nothing(
    double: RunPodDouble, account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has(monkeypatch, account)
    assert run([*RENT, "--no-wait"], None) == 2
    assert "$/h" in capsys.readouterr().err
    assert double.asked("POST", "/v2/pods") == []


def test_an_unknown_balance_is_said_and_runpod_checks(
    double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has(monkeypatch, Account(None, None, None, "the library is not installed"))
    double.cloud.balance = 0.1
    assert run([*RENT, "--no-wait"], None) == 2
    err = capsys.readouterr().err
    assert "balance: -  (the library is not installed)" in err
    assert "balance is too low" in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["pod", "create", "--gpu", "a40"], "--gpu is for --provider runpod"),
        ([*RENT, "--engine", "vllm"], "--engine is for --provider local"),
        ([*RENT, "--gpu", "a4o"], "no GPU type 'a4o'"),
        ([*RENT, "--env", "NOT_SET_HERE"], "there is no such variable here"),
        ([*RENT, "--volume", "20", "--network-volume", "v"], "two volumes"),
        (["pod", "create", "--provider", "runpod", "--gpu", "a40"], "no store is set"),
        (["pod", "create", "--provider", "runpod", "--hub", "hf://datasets/a/b"], "no GPU type is named"),
    ],
)
def test_what_makes_no_sense_costs_nothing(
    double: RunPodDouble, argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv, None) == 64
    assert words in capsys.readouterr().err
    assert double.asked("POST", "/v2/pods") == []


def test_without_a_key_it_says_where_to_put_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RENT, None) == 2
    assert "passerelle init" in capsys.readouterr().err


def test_nothing_fits_the_price(double: RunPodDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RENT, "--max-price", "0.3"], None) == 2
    assert "the cheapest is 1 × a40 at 0.44 $/h" in capsys.readouterr().err


def test_the_same_again_elsewhere(
    double: RunPodDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    has(monkeypatch, Account(None, None, None, "-"))
    assert run([*RENT, "--no-wait", "--json", "--disk", "70"], None) == 0
    first = json.loads(capsys.readouterr().out)
    like = ["pod", "create", "--like", first["id"], "--gpu", "h200", "--no-wait", "--json"]
    assert run(like, None) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["gpu"], second["id"] != first["id"]) == ("NVIDIA H200", True)
    old, new = (seen.body for seen in double.asked("POST", "/v2/pods"))
    assert (new["disk"], new["args"], new["image"]) == (70, old["args"], old["image"])
    assert new["env"]["PASSERELLE_OPERATOR_TOKEN"] != old["env"]["PASSERELLE_OPERATOR_TOKEN"]


CONFIG = '[serve]\nmodel = "m"\n[models.m]\nrepo = "org/m"\n'


@pytest.mark.process
def test_its_configuration_is_there_before_it_costs(
    double: RunPodDouble,
    hub: HubDouble,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    has(monkeypatch, Account(50.0, 0.0, 80.0))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    (home / "my.toml").write_text(CONFIG)
    argv = [*RENT[:-1], "hf://datasets/alice/pods", "--no-wait", "--json", "--name", "mine"]
    assert run([*argv, "--config", str(home / "my.toml")], None) == 0
    out, err = capsys.readouterr()
    sent = double.asked("POST", "/v2/pods")[0].body
    folder = sent["name"]
    assert f"published to hf://datasets/alice/pods/{folder}" in err
    files = hub.files("datasets/alice/pods")
    body = files[f"{folder}/pod.toml"]
    assert seal.check(body, files[f"{folder}/pod.toml.sig"].decode(), sent["env"]["PASSERELLE_OPERATOR_TOKEN"]) is None
    code = hashlib.sha256(base64.b64decode(files[f"{folder}/passerelle.pyz.b64"])).hexdigest()
    assert parse(body.decode()).code.sha256 == code

    # Another one like it has the same text, in a folder of its own, under its own token.
    made = json.loads(out)["id"]
    assert run(["pod", "create", "--like", made, "--hub", "hf://datasets/alice/pods", "--no-wait"], None) == 0
    other = double.asked("POST", "/v2/pods")[1].body
    assert other["name"] != folder
    assert parse(hub.files("datasets/alice/pods")[f"{other['name']}/pod.toml"].decode()).serve.model == "m"


def test_a_wrong_configuration_costs_nothing(
    double: RunPodDouble, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "my.toml").write_text(CONFIG.replace("model", "modle"))
    assert run([*RENT, "--config", str(home / "my.toml"), "--dry-run"], None) == 64
    assert "my.toml: pod.toml line 3" in capsys.readouterr().err
    assert double.asked("POST", "/v2/pods") == []


@pytest.mark.process
def test_a_store_that_cannot_be_written_costs_nothing(
    double: RunPodDouble,
    hub: HubDouble,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    has(monkeypatch, Account(50.0, 0.0, 80.0))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    hub.seed("datasets/alice/pods", {})
    (home / "my.toml").write_text(CONFIG)
    argv = [*RENT[:-1], "hf://datasets/alice/pods", "--no-wait", "--config", str(home / "my.toml")]
    assert run(argv, None) == 2
    assert "write token" in capsys.readouterr().err
    assert double.asked("POST", "/v2/pods") == []
