"""What must be mended before a model's engine starts, as named steps that may be repeated and undone. Pure.

Each is a script of bootstrap/fixes, given whole to the engine's interpreter, so that it also runs from a zipapp.
"""

from dataclasses import dataclass
from importlib.resources import files

from bootstrap.spec import PodSpec

Argv = tuple[str, ...]
_SCRIPTS = {  # in the order in which they are applied
    "transformers": "transformers_version.py",
    "fastokens": "package.py",
    "tokenizer-shim": "tokenizer_shim.py",
    "config-ignore": "config_ignore.py",
}


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    check: Argv  # ends with 0 where it is applied already
    apply: Argv  # ends with 0 where it is applied now; what fails has put back what it changed
    undo: Argv  # for when the engine does not come back; does nothing where nothing was applied


def steps(spec: PodSpec, key: str, python: str) -> tuple[Step, ...]:
    """The steps of one model, in their order. `python`: the engine's interpreter."""
    model = spec.models[key]
    asked = dict(model.patches) | ({"fastokens": "fastokens"} if spec.serve.fast_tokenizer else {})
    found = []
    for name, script in _SCRIPTS.items():
        if name in asked:
            value, of = asked[name], (model.repo, model.revision or "")
            words = (value,) if isinstance(value, str) else tuple(value)
            given = (*of, *words) if name == "config-ignore" else (*words, *of) if name == "transformers" else words
            run = (python, "-c", files("bootstrap").joinpath("fixes", script).read_text("utf-8"))
            found.append(Step(name, *((*run, verb, *given) for verb in ("check", "apply", "undo"))))
    return tuple(found)
