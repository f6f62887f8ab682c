"""The two palettes, dark and light, and the meaning of each of their colours."""

from __future__ import annotations

from textual.theme import Theme

DARK = "passerelle-dark"
LIGHT = "passerelle-light"

DARK_MEANINGS = {
    "good": "#7cc38f",
    "watch": "#e2b25c",
    "bad": "#f28779",
    "quiet": "#8b95a5",
    "faint": "#353d49",
    "brand": "#8fb4e3",
    "chart": "#6f93c4",
    "alarm-back": "#b3372f",
    "alarm-ink": "#ffffff",
    "raised": "#1e2530",
}
LIGHT_MEANINGS = {
    "good": "#1c6f40",
    "watch": "#8a5a00",
    "bad": "#b3261e",
    "quiet": "#5b6470",
    "faint": "#cfd3d8",
    "brand": "#2a5ca8",
    "chart": "#5b86c4",
    "alarm-back": "#b3261e",
    "alarm-ink": "#ffffff",
    "raised": "#eceef1",
}
ANSI_MEANINGS = {
    "good": "ansi_green",
    "watch": "ansi_yellow",
    "bad": "ansi_red",
    "quiet": "ansi_default",
    "faint": "ansi_bright_black",
    "brand": "ansi_blue",
    "chart": "ansi_blue",
    "alarm-back": "ansi_red",
    "alarm-ink": "ansi_bright_white",
    "raised": "ansi_default",
}


def meanings(theme: Theme) -> dict[str, str]:
    """The variables that app.tcss needs beyond Textual's own, for any theme."""
    if theme.ansi:
        return ANSI_MEANINGS
    return DARK_MEANINGS if theme.dark else LIGHT_MEANINGS


def themes() -> tuple[Theme, Theme]:
    """Dark and light."""
    dark = Theme(
        name=DARK,
        primary="#8fb4e3",
        foreground="#d8dde6",
        background="#12161d",
        surface="#181d26",
        panel="#1e2530",
        success=DARK_MEANINGS["good"],
        warning=DARK_MEANINGS["watch"],
        error=DARK_MEANINGS["bad"],
        dark=True,
        variables={**DARK_MEANINGS, **_footer(DARK_MEANINGS)},
    )
    light = Theme(
        name=LIGHT,
        primary="#2a5ca8",
        foreground="#1d232b",
        background="#fafbfc",
        surface="#f3f4f6",
        panel="#eceef1",
        success=LIGHT_MEANINGS["good"],
        warning=LIGHT_MEANINGS["watch"],
        error=LIGHT_MEANINGS["bad"],
        dark=False,
        variables={**LIGHT_MEANINGS, **_footer(LIGHT_MEANINGS)},
    )
    return dark, light


def named(wanted: str | None) -> str:
    """The theme's full name: none is dark, "light" and "dark" are ours, any other is Textual's own."""
    return {None: DARK, "dark": DARK, "light": LIGHT, "ansi": "ansi-dark"}.get(wanted, wanted or DARK)


def _footer(meaning: dict[str, str]) -> dict[str, str]:
    return {
        "footer-background": meaning["raised"],
        "footer-key-foreground": meaning["brand"],
        "footer-description-foreground": meaning["quiet"],
    }
