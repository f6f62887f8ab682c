"""Every colour that carries text can be read on every ground that it stands on."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from console.themes import ANSI_MEANINGS, DARK_MEANINGS, LIGHT_MEANINGS, meanings, named, themes

INK = ("good", "watch", "bad", "quiet", "brand")
READABLE = 4.5
"""WCAG 2.1, AA, normal text."""


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.1 defines it."""
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in Color.parse(colour).normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", themes(), ids=lambda theme: theme.name)
@pytest.mark.parametrize("meaning", INK)
def test_ink_on_the_screen_and_on_the_raised_lines(theme: Theme, meaning: str) -> None:
    words = meanings(theme)
    assert theme.background is not None
    assert contrast(words[meaning], theme.background) >= READABLE
    assert contrast(words[meaning], words["raised"]) >= READABLE


@pytest.mark.parametrize("theme", themes(), ids=lambda theme: theme.name)
def test_the_text_the_chip_and_the_alarm(theme: Theme) -> None:
    words = meanings(theme)
    assert theme.background is not None
    assert theme.foreground is not None
    assert contrast(theme.foreground, theme.background) >= 7
    assert contrast(theme.background, words["brand"]) >= READABLE
    assert contrast(words["alarm-ink"], words["alarm-back"]) >= READABLE
    assert contrast(words["chart"], theme.background) >= 3


def test_every_palette_has_every_meaning() -> None:
    assert set(DARK_MEANINGS) == set(LIGHT_MEANINGS) == set(ANSI_MEANINGS)


def test_names() -> None:
    assert [named(name) for name in (None, "dark", "light", "nord")] == [
        "passerelle-dark", "passerelle-dark", "passerelle-light", "nord",
    ]  # fmt: skip
