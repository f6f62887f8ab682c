"""The first help: the verbs in the order in which they are needed, and the way from nothing to a pod that works."""

from __future__ import annotations

import click

Section = tuple[str, tuple[str, ...]]

SECTIONS: dict[str, tuple[Section, ...]] = {
    "cli": (
        ("Begin", ("demo", "init", "doctor")),
        ("A pod, from its creation to its end", ("pod", "watch", "status", "connect", "cost", "fleet")),
        ("What it runs", ("config", "swap")),
        ("While it runs", ("log", "boot", "bridge", "engine", "drain", "keep", "desktop")),
        ("When something does not answer", ("link", "ssh-key")),
        ("Called by Claude Code", ("statusline",)),
    ),
    "pod": (
        ("Make one", ("offers", "create", "adopt")),
        ("Look at it", ("list", "status", "wait", "logs")),
        ("Change it", ("start", "restart", "stop", "terminate")),
        ("Its code", ("build",)),
    ),
    "config": (
        ("Before", ("check", "plan")),
        ("Publish", ("publish", "edit", "rollback")),
        ("After", ("history", "apply")),
    ),
}
"""Verbs by the name of their group, in the order in which they are needed."""

THE_WAY = """\b
From nothing to Claude Code on a rented GPU:
  passerelle demo                         six agents on an embedded pod, and the screen; nothing is rented
  passerelle init                         once: keys, the Hub's stores, an SSH key
  passerelle doctor                       does it hold?
  passerelle pod offers --gpu a40         what there is, and for how much
  passerelle pod create --provider runpod --config pod.toml --gpu a40 --max-price 0.8 --budget 5
  passerelle watch                        the screen; s stops the pod
  eval "$(passerelle connect)"            point Claude Code at it
  passerelle pod stop                     the end of compute, verified

\b
In scripts:
  passerelle status --json                exit code 0 healthy, 1 warning, 2 critical, 3 unreachable
  passerelle demo --headless --seconds 20 --json
  passerelle VERB --help                  each has examples
"""


class Verbs(click.Group):
    """A group whose help lists its verbs in SECTIONS; one that no section names comes last."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = SECTIONS.get(self.name or "", ())
        named = [name for _, names in sections for name in names]
        rest = tuple(name for name in self.list_commands(ctx) if name not in named)
        widest = max(map(len, self.commands), default=0)
        for title, names in (*sections, ("More" if sections else "Commands", rest)):
            there = [(name, self.commands[name]) for name in names if name in self.commands]
            if there:
                with formatter.section(title):
                    limit = formatter.width - widest - 6
                    formatter.write_dl([(name.ljust(widest), short(verb, limit)) for name, verb in there])


def short(verb: click.Command, limit: int) -> str:
    """Its first sentence, whole or up to a comma, a colon or a semicolon; cut between words where there is none."""
    sentence = verb.get_short_help_str(1_000).removesuffix(".")
    if len(sentence) <= limit:
        return sentence
    cut = max(sentence.rfind(mark, 0, limit) for mark in (", ", ": ", "; "))
    return sentence[:cut] if cut > 0 else verb.get_short_help_str(limit)
