"""What may come into force, and what is kept on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.errors import Problem
from bootstrap.published import Published
from bootstrap.seal import sign

TOKEN = "operator-token-4567"
ENVIRON = {"PASSERELLE_CLIENT_TOKEN": "c", "PASSERELLE_OPERATOR_TOKEN": TOKEN}


def text(serial: int, more: str = "") -> bytes:
    return f'serial = {serial}\n[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n{more}'.encode()


def signed(body: bytes) -> str:
    return sign(body, TOKEN)


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path, ENVIRON)


def take(published: Published, body: bytes, now: float = 0.0) -> None:
    published.take(body, "c0ffee", now, signed(body))


def test_the_first_starts_and_the_next_says_what_it_changes(published: Published) -> None:
    take(published, text(1), 10.0)
    assert published.applied is not None
    assert (published.applied.plan, published.applied.at, published.applied.commit) == ("start", 10.0, "c0ffee")
    take(published, text(2, "[bridge]\nmax_streams = 9\n"), 20.0)
    assert (published.applied.plan, published.applied.at) == ("reload bridge", 20.0)
    assert published.applied.reasons == ("[bridge] max_streams: 256 -> 9",)


def test_the_same_again_changes_nothing_and_clears_the_error(published: Published) -> None:
    take(published, text(2), 10.0)
    spec, applied = published.spec, published.applied
    with pytest.raises(Problem, match="serial 1 is not above 2"):
        take(published, text(1))
    assert published.error is not None
    assert published.take(text(2), None, 30.0, signed(text(2))) is spec
    assert (published.spec, published.applied) == (spec, applied)
    assert not published.error


@pytest.mark.parametrize(
    ("body", "signature", "says"),
    [
        (text(2), "", "not signed"),
        (text(2), "0" * 64, "does not match"),
        (text(2) + b"# altered", signed(text(2)), "does not match"),
        (b"\xff", signed(b"\xff"), "refused: pod.toml: "),
        (text(2, "[x]\n"), signed(text(2, "[x]\n")), 'unknown section "x"'),
    ],
)
def test_refusals(published: Published, tmp_path: Path, body: bytes, signature: str, says: str) -> None:
    take(published, text(1))
    with pytest.raises(Problem) as refused:
        published.take(body, None, 0.0, signature)
    assert says in str(refused.value) == (published.error or "")
    assert published.spec is not None
    assert published.spec.serial == 1
    assert (tmp_path / "pod.toml").read_bytes() == text(1)


def test_more_gpus_than_the_pod_has_need_a_new_pod(published: Published) -> None:
    take(published, text(1))
    published.gpus = 1
    two = text(2).replace(b"[models.a]", b"tensor_parallel = 2\n[models.a]")
    with pytest.raises(Problem, match=r"needs a new pod: .*tensor_parallel"):
        take(published, two)
    published.gpus = None  # not known
    take(published, two)


def test_the_pods_own_file_needs_no_signature_and_no_serial_and_is_not_kept(
    published: Published, tmp_path: Path
) -> None:
    published.take(text(5), None, 0.0)
    published.take(text(0, "[idle]\nstop_after_minutes = 5\n"), None, 1.0)
    assert published.spec is not None
    assert published.spec.serial == 0
    assert list(tmp_path.iterdir()) == []


def test_the_last_good_one_is_recalled_if_it_still_is_what_was_signed(published: Published, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no config was kept"):
        published.recall(0.0)
    take(published, text(3))
    later = Published(tmp_path, ENVIRON)
    later.recall(5.0)
    assert later.spec is not None
    assert later.spec.serial == 3
    (tmp_path / "pod.toml").write_bytes(text(4))
    with pytest.raises(Problem, match="does not match"):
        Published(tmp_path, ENVIRON).recall(0.0)


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    published = Published(tmp_path, {**ENVIRON, "VL_SEQS": "7"})
    take(published, text(1))
    assert published.spec is not None
    assert published.spec.serve.concurrency == 7
