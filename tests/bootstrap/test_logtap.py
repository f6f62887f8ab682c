"""Files and ring, with a clock and a disk of the test's own."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from bootstrap import logtap
from bootstrap.logtap import Journal
from bootstrap.redact import Redactor


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "logs", Redactor(["client-secret"]), lambda: 86_400.5)


def test_lines_of_all_sources_are_numbered_and_filed(journal: Journal, tmp_path: Path) -> None:
    journal.say("info", "engine started")
    journal.take("engine", "(EngineCore pid=1) WARNING 11-29 12:54:32 [core.py:1] low memory")
    journal.take("bridge", "error: no engine")
    lines, after = journal.since(0)
    assert [(line.seq, line.source, line.level, line.text) for line in lines] == [
        (1, "bootstrap", "info", "engine started"),
        (2, "engine", "warning", "low memory"),
        (3, "bridge", "error", "no engine"),
    ]
    assert (after, lines[0].at) == (3, 86_400.5)
    journal.close()
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "logs").iterdir()}
    stamp = "1970-01-02T00:00:00.500+00:00"
    assert files == {
        "pod.log": f"{stamp} bootstrap INFO engine started\n"
        f"{stamp} engine    (EngineCore pid=1) WARNING 11-29 12:54:32 [core.py:1] low memory\n"
        f"{stamp} bridge    error: no engine\n"
    }


def test_no_secret_reaches_ring_or_file(journal: Journal, tmp_path: Path) -> None:
    heard: list[str] = []
    feed = journal.tap("engine", lambda: 0.0, lambda line, at: heard.append(line))
    feed(b"token client-sec")
    feed(b"ret and \x1b[1mhf_abcdefghijkl\x1b[0m\nclient-\x1b[0msecret\n" + b"x" * 16_370 + b" client-secret-is-cut\n")
    journal.say("error", "client-secret")
    journal.close()
    kept = "".join(line.text for line in journal.since(0)[0])
    filed = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "logs").iterdir())
    for text in (kept, filed, "".join(heard)):
        assert "client-s" not in text
        assert "hf_abc" not in text
        assert "[redacted]" in text


def test_an_answer_has_at_most_500_lines_and_says_where_to_go_on(journal: Journal) -> None:
    for number in range(1, logtap.RING + 101):
        journal.say("info", f"line {number}")
    oldest, after = journal.since(0)
    assert (oldest[0].seq, len(oldest), after) == (101, 500, 600)
    following, _ = journal.since(after)
    assert following[0].seq == 601
    newest, last = journal.since(None)
    assert (newest[0].seq, newest[-1].seq, last) == (4601, 5100, 5100)
    assert journal.since(last) == ((), 5100)
    journal.close()


def test_a_place_that_was_never_reached_is_of_an_earlier_life(journal: Journal) -> None:
    assert journal.since(0) == ((), 0)
    journal.say("info", "one")
    assert [line.seq for line in journal.since(4000)[0]] == [1]
    assert [line.seq for line in journal.since(-3)[0]] == [1]
    journal.close()


def test_a_file_that_is_full_becomes_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logtap, "FILE_LIMIT", 10)
    journal = Journal(tmp_path / "logs", Redactor(()), lambda: 0.0)
    for line in ("first", "second", "third"):
        journal.take("engine", line)
    journal.close()
    assert (tmp_path / "logs" / "pod.log").read_text(encoding="utf-8").endswith(" third\n")
    assert (tmp_path / "logs" / "pod.log.1").read_text(encoding="utf-8").endswith(" second\n")


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_and_costs_lines_not_the_supervisor(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    file = journal._file
    file.close()
    file.stream = FullDisk()  # type: ignore[assignment]
    journal.take("engine", "one")
    journal.take("engine", "two")
    assert [line.text for line in journal.since(0)[0]] == ["one", "two"]
    assert "No space left on device" in capsys.readouterr().err
    journal.close()


def test_a_folder_that_cannot_be_made_is_the_callers_to_say(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="File exists"):
        Journal(tmp_path / "logs", Redactor(()), lambda: 0.0)
