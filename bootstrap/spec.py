"""pod.toml -> PodSpec, strictly: an unknown key, a wrong type or a bad value is an error with its line. Pure."""

# settings.toml is the schema. None leaves the matter to vLLM. docs/config.md describes every key.

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

    @property
    def routes(self) -> dict[str, str]:
        """Further names that a swap is asked for by -> key of their model."""
        return dict(self.swap.on_request) if isinstance(self.swap.on_request, tuple) else {}

    def names(self, key: str, in_force: str | None = None) -> tuple[str, ...]:
        """By what clients may ask for this model; the first is the engine's own name. The aliases are of who serves."""
        routed = [name for name, model in self.routes.items() if model == key]
        aliases = self.serve.aliases if key == in_force else ()
        return tuple(dict.fromkeys((*self.models[key].names, *routed, *aliases)))

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
    for key in _table(document, "models"):
        _table(document, "models", key).setdefault("names", [key])
    reader = toml.Reader(text, variables)
    spec = PodSpec(**reader.fields(SETTINGS, (), document), overrides=tuple(sorted(variables.values())))
    _check_keys(spec, reader)
    _check_pairs(spec, reader)
    return spec


# Writes the variables into the document, and says which one said what. An empty one means the default.
def _override(document: dict[str, Any], environ: Mapping[str, str]) -> dict[toml.Path, str]:
    said: dict[toml.Path, str] = {}
    for pattern, row in ROWS.items():
        if (variable := row.get("variable", "")) in environ:
            served = str(_table(document, "serve").get("model"))
            path = tuple(served if part == "*" else part for part in pattern)
            said[path], table = variable, _table(document, *path[:-1])
            table.pop(path[-1], None)
            if text := environ[variable]:
                table[path[-1]] = toml.word(text, row)
                rival = row.get("excludes", "")
                if rival and ROWS[*pattern[:-1], rival]["variable"] not in environ:
                    table.pop(rival, None)
    return said


# The section, or the table of one model; where something else is in its place, a table that nobody reads.
def _table(document: dict[str, Any], section: str, *key: str) -> dict[str, Any]:
    table = document.setdefault(section, {})
    for part in key:
        table = table.get(part) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _check_keys(spec: PodSpec, reader: toml.Reader) -> None:
    known = ", ".join(spec.models) or "none"
    wanted = [("serve", "model", spec.serve.model), *(("swap", "on_request", key) for key in spec.routes.values())]
    wanted += [("preload", "models", key) for key in spec.preload.models if "/" not in key]
    for section, name, key in wanted:
        if key not in spec.models:
            message = f'"{name}" in [{section}] has "{key}", and there is no [models.{key}] (there is: {known})'
            raise reader.error(message, (section, name), toml.nearest(key, spec.models))


def _check_pairs(spec: PodSpec, reader: toml.Reader) -> None:
    for (section, *_, name), row in [(path, row) for path, row in ROWS.items() if "excludes" in row]:
        if None not in (getattr(getattr(spec, section), each) for each in (name, row["excludes"])):
            message = f'"{name}" and "{row["excludes"]}" in [{section}] exclude each other; keep one'
            raise reader.error(message, (section, row["excludes"]))
    owners: dict[str, str] = {}
    for key, name in ((model, name) for model in spec.models for name in spec.names(model)):
        if owners.setdefault(name, key) != key:
            message = f'the name "{name}" belongs to [models.{owners[name]}] already'
            raise reader.error(message, ("models", key, "names"))
