"""The tail of a growing file: whole lines, none twice, none lost when it is replaced."""

from __future__ import annotations

from pathlib import Path

from control.local.logs import lines
from tests.doubles.clock import ManualClock


async def test_the_last_lines_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    assert [line async for line in lines(path, 5, False, ManualClock())] == []
    path.write_text("one\ntwo\u2028still two\nthree\nhalf a li")
    got = [line async for line in lines(path, 2, False, ManualClock())]
    assert [(line.source, line.text) for line in got] == [("pod", "two\u2028still two"), ("pod", "three")]
    assert [line async for line in lines(path, 0, False, ManualClock())] == []


async def test_what_is_written_later_comes_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    path.write_text("one\nha")
    steps = iter(["lf\n", "two\n"])

    class Writing(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            with path.open("a") as file:
                file.write(next(steps))

    got: list[str] = []
    async for line in lines(path, 10, True, Writing()):
        got.append(line.text)
        if len(got) == 3:
            break
    assert got == ["one", "half", "two"]


async def test_a_file_that_began_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    path.write_text("a long first line\n")

    class Replacing(ManualClock):
        async def sleep(self, seconds: float) -> None:
            path.write_text("new\n")

    async for line in lines(path, 0, True, Replacing()):
        assert line.text == "new"
        break
