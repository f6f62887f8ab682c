"""A pod's log as it wrote it elsewhere, read back: typed lines, whatever the file holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control.mirror import lines, name_of, newest

TEXT = b"""f of a line that was cut
2026-11-29T17:29:24.123+00:00 bootstrap INFO engine starts
2026-11-29T17:29:25.000+00:00 engine    ERROR CUDA out of memory
garbage
2026-11-29T17:29:26.500+00:00 bridge    WARNING hung
2026-11-29T17:29:26.500+00:00 stranger  INFO no such source
2026-99-99T17:29:26.500+00:00 engine    INFO no such day
"""


def test_the_lines_that_are_whole() -> None:
    found = lines(TEXT)
    assert [(line.seq, line.source, line.level) for line in found] == [
        (2, "bootstrap", "info"),
        (3, "engine", "error"),
        (5, "bridge", "warning"),
    ]
    assert "CUDA out of memory" in found[1].text
    assert newest(found) == 1_795_973_366.5


def test_an_empty_log() -> None:
    assert lines(b"") == ()
    assert newest(()) is None


def test_where_it_is() -> None:
    assert name_of("k3v9x0q2ab") == "etat/k3v9x0q2ab.log"


@given(st.binary() | st.text(alphabet="0123456789-T:+. engirfo\n").map(str.encode))
def test_any_file(text: bytes) -> None:
    for line in lines(text):
        assert line.text is not None
        assert line.seq >= 1
