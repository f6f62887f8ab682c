"""pod.toml -> PodSpec, strictly: an unknown key, a wrong type or a bad value is an error with its line. Pure.

settings.toml is the schema. None leaves the matter to vLLM. docs/config.md describes every key.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bootstrap import toml_reader as toml
from bootstrap.toml_reader import SpecError as SpecError

SETTINGS = toml.data("settings.toml")
ROWS = dict(toml.rows(SETTINGS))  # path -> row; the path of a model's setting is ("models", "*", its key)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """Sections are frozen objects with an attribute per key of settings.toml."""

    serial: int
    serve: Any
    models: Mapping[str, Any]
    bridge: Any
    swap: Any
    idle: Any
    log: Any
    preload: Any
    desktop: Any
    code: Any
    overrides: tuple[str, ...] = ()  # names of the variables in force

    @property
    def served(self) -> Any:
        return self.models[self.serve.model]

    def names(self, key: str) -> tuple[str, ...]:
        """By what clients may ask for this model; the first is the engine's own name. [serve] aliases come on top."""
        routes = dict(self.swap.on_request) if isinstance(self.swap.on_request, tuple) else {}
        routed = [name for name, model in routes.items() if model == key]
        return tuple(dict.fromkeys((*self.models[key].names, *routed)))

    def restarting(self) -> "PodSpec":
        """The same without sleeping engines, for a host that cannot afford them."""
        return replace(self, swap=replace(self.swap, strategy="restart"))


def parse(text: str) -> PodSpec:
    """The whole file, checked. Errors: SpecError, the first one met."""
    return load(text, {})


def load(text: str, environ: Mapping[str, str]) -> PodSpec:
    """The whole file with what the pod's VL_* variables say over it. Errors: SpecError; it names the variable."""
    document = toml.document(text)
    variables = _override(document, environ)
    for key, model in _table(document, ("models",)).items():
        if isinstance(model, dict):
            model.setdefault("names", [key])
    reader = toml.Reader(text, variables)
    spec = PodSpec(**reader.fields(SETTINGS, (), document), overrides=tuple(sorted(variables.values())))
    _check_across(spec, reader)
    return spec


def _override(document: dict[str, Any], environ: Mapping[str, str]) -> dict[toml.Path, str]:
    """Writes the variables into the document; returns which one said what. An empty one means the default."""
    said: dict[toml.Path, str] = {}
    for pattern, row in ROWS.items():
        variable = row.get("variable", "")
        if variable not in environ:
            continue
        served = str(_table(document, ("serve",)).get("model"))
        path = tuple(served if part == "*" else part for part in pattern)
        said[path], table = variable, _table(document, path[:-1])
        table.pop(path[-1], None)
        if environ[variable] != "":
            table[path[-1]] = toml.word(environ[variable], row)
            rival = ROWS.get((*pattern[:-1], row.get("excludes", "")), {})
            if rival and rival["variable"] not in environ:
                table.pop(row["excludes"], None)
    return said


def _table(document: dict[str, Any], path: toml.Path) -> dict[str, Any]:
    """The table at the path, made where it is missing; one that nobody reads where something else is in its place."""
    for part in path:
        below = document.setdefault(part, {}) if part != "None" else {}
        document = below if isinstance(below, dict) else {}
    return document


def _check_across(spec: PodSpec, reader: toml.Reader) -> None:
    _check_keys(spec, reader)
    for path, row in ROWS.items():
        section = getattr(spec, path[0])
        if "excludes" in row and None not in (getattr(section, path[1]), getattr(section, row["excludes"])):
            message = f'"{path[1]}" and "{row["excludes"]}" in [{path[0]}] exclude each other; keep one'
            raise reader.error(message, (path[0], row["excludes"]))
    owners: dict[str, str] = {}
    for key in spec.models:
        for name in spec.names(key):
            if owners.setdefault(name, key) != key:
                message = f'the name "{name}" belongs to [models.{owners[name]}] already'
                raise reader.error(message, ("models", key, "names"))


def _check_keys(spec: PodSpec, reader: toml.Reader) -> None:
    known = ", ".join(spec.models) or "none"
    routes = spec.swap.on_request if isinstance(spec.swap.on_request, tuple) else ()
    wanted = [("serve", "model", spec.serve.model), *(("swap", "on_request", key) for _, key in routes)]
    wanted += [("preload", "models", key) for key in spec.preload.models if "/" not in key]
    for section, name, key in wanted:
        if key not in spec.models:
            near = difflib.get_close_matches(key, spec.models, n=1)
            message = f'"{name}" in [{section}] has "{key}", and there is no [models.{key}] (there is: {known})'
            raise reader.error(message, (section, name), near[0] if near else None)
