"""The steps of a model, and their scripts in an interpreter whose packages are ours: once, twice, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.preflight import ENGINE_SIDE
from bootstrap.preparing import steps
from bootstrap.spec import parse

TEXT = """
[serve]
model = "a"
fast_tokenizer = true
[models.a]
repo = "{repo}"
[models.a.patches]
config-ignore = ["re:.*mtp.*", "lm_head"]
tokenizer-shim = "bytes_to_unicode"
transformers = "5.16.1"
[models.b]
repo = "x/b"
"""
# Stands for pip: writes down what is installed where importlib.metadata looks, in the folder of the fake packages.
PIP = """
import pathlib, shutil, sys
here, (verb, *_, last) = pathlib.Path(__file__).parents[1], sys.argv[1:]
name, _, version = last.partition("==")
with open(here / "calls", "a") as calls: print(verb, last, file=calls)
for old in here.glob(f"{name}-*.dist-info"): shutil.rmtree(old)
if verb == "install":
    info = here / f"{name}-{version or 1}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version or 1}\\n")
    (here / name).mkdir(exist_ok=True)
else:
    shutil.rmtree(here / name)
"""
# Knows the model from 5.16.1 on.
TRANSFORMERS = """
import importlib.metadata
class AutoConfig:
    @staticmethod
    def from_pretrained(repo, revision=None):
        if importlib.metadata.version("transformers") != "5.16.1" or "strange" in repo:
            raise ValueError("model type `x` but Transformers does not recognize this architecture.")
"""
OLD_TOKENIZERS = "import os\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name, text in (("pip", ""), ("transformers", TRANSFORMERS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text, "utf-8")
    (tmp_path / "pip" / "__main__.py").write_text(PIP, "utf-8")
    (tmp_path / "transformers" / "convert_slow_tokenizer.py").write_text(OLD_TOKENIZERS, "utf-8")
    info = tmp_path / "transformers-5.15.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 5.15.1\n", "utf-8")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"quantization_config": {"ignore": ["lm_head"]}}', "utf-8")
    (tmp_path / "prefix").mkdir()
    return tmp_path


def words(packages: Path, name: str, repo: str = "") -> tuple[str, ...]:
    return steps(parse(TEXT.format(repo=repo or packages / "model")), "a")[name]


def run(packages: Path, verb: str, words: tuple[str, ...]) -> str | None:
    """Its last word; None where it failed."""
    # sys.prefix is where the version to go back to is kept: not in the environment that the tests run in.
    script = f"import sys; sys.prefix = {str(packages / 'prefix')!r}\n{ENGINE_SIDE[1]}"
    argv = [sys.executable, "-c", script, verb, *words]
    env = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode else done.stdout.split()[-1]


def version(packages: Path) -> str:
    return next(packages.glob("transformers-*.dist-info")).name.removeprefix("transformers-").removesuffix(".dist-info")


def test_a_model_has_the_steps_that_it_asks_for_in_their_order() -> None:
    spec = parse(TEXT.format(repo="x/a"))
    assert list(steps(spec, "a")) == ["transformers", "fastokens", "tokenizer-shim", "config-ignore"]
    assert list(steps(spec, "b")) == ["fastokens"]
    assert steps(spec, "a")["config-ignore"] == ("config-ignore", "x/a", "", "re:.*mtp.*", "lm_head")


@pytest.mark.process
@pytest.mark.parametrize("name", ["transformers", "fastokens", "tokenizer-shim", "config-ignore"])
def test_each_is_applied_once_and_taken_back_whole(packages: Path, name: str) -> None:
    found = words(packages, name)
    before = {
        path: path.read_bytes() for path in packages.rglob("*") if path.is_file() and path.suffix in (".py", ".json")
    }
    assert run(packages, "undo", found) == "undone"  # there is nothing to take back
    assert {path: path.read_bytes() for path in before} == before
    assert [run(packages, "apply", found) for _ in range(2)] == ["applied", "there"]
    assert run(packages, "undo", found) == "undone"
    assert {path: path.read_bytes() for path in before} == before
    assert version(packages) == "5.15.1"
    assert run(packages, "apply", found) == "applied"


@pytest.mark.process
def test_a_version_that_does_not_know_the_model_either_goes_back_by_itself(packages: Path) -> None:
    assert run(packages, "apply", words(packages, "transformers", repo="x/strange")) is None
    assert version(packages) == "5.15.1"
    assert (packages / "calls").read_text("utf-8").split() == [
        *("install", "transformers==5.16.1"),
        *("install", "transformers==5.15.1"),
    ]


@pytest.mark.process
def test_the_shim_is_gpt2s_table(packages: Path) -> None:
    assert run(packages, "apply", words(packages, "tokenizer-shim")) == "applied"
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, transformers.convert_slow_tokenizer as t; print(json.dumps(t.bytes_to_unicode()))",
        ],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    table = {int(byte): character for byte, character in json.loads(told.stdout).items()}
    assert (table[ord("A")], table[ord(" ")], table[ord("\n")], table[0], table[173]) == ("A", "Ġ", "Ċ", "Ā", "Ń")
    assert sorted(table) == list(range(256))
    assert len(set(table.values())) == 256


@pytest.mark.process
def test_a_config_that_is_a_link_into_the_cache_leaves_the_blob_alone(packages: Path) -> None:
    blob = packages / "blob"
    (packages / "model" / "config.json").rename(blob)
    (packages / "model" / "config.json").symlink_to(blob)
    before = blob.read_bytes()
    assert run(packages, "apply", words(packages, "config-ignore")) == "applied"
    assert blob.read_bytes() == before
    config = json.loads((packages / "model" / "config.json").read_text("utf-8"))
    assert config["quantization_config"]["ignore"] == ["lm_head", "re:.*mtp.*"]
