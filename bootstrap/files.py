"""Files written whole or not at all. An edge."""

from pathlib import Path

from bootstrap.errors import failing_as


def replace_file(path: Path, content: bytes) -> None:
    """Whole or not at all. Errors: Problem."""
    with failing_as(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(content)
        part.replace(path)
