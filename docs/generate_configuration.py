"""Write docs/configuration.md, and the missing keys and all comments of configs/*.yaml, from `rhino_actors.config`.

    python docs/generate_configuration.py

The dataclasses are the one place where a key's default, unit, bounds and meaning stand. The YAML files keep the
values that they have: only what they lack is added, with its default.
"""

import dataclasses
import math
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from rhino_actors.config import RhinoConfig, config_from_tree, config_to_tree

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "configuration.md"
CONFIGS = ROOT / "configs"

INTRODUCTION = """\
# Configuration

Generated from `rhino_actors/config.py` by `python docs/generate_configuration.py`; do not edit by hand.

`rhino deploy sim` reads `configs/sim.yaml`; `rhino deploy my.yaml` any other file. A file needs only the keys that
it changes. Values are plain numbers in SI units. A key that is not listed here, a value of the wrong type and a
value out of bounds end the start, and the message names what is known. The whole configuration, every default
resolved, is logged at the start.

`RHINO_PORT` in the environment overrides `server.port`. What must last (database, maps) lies in
`$XDG_DATA_HOME/rhino`, the e-stop latch, logs and other run state in `$XDG_STATE_HOME/rhino`.
"""


def document() -> str:
    """Return the text of docs/configuration.md."""
    parts = [INTRODUCTION, _table("Top level", RhinoConfig)]
    parts += [_table(f"`{name}`", kind) for name, kind in sections().items()]
    return "\n".join(parts)


def complete(text: str) -> str:
    """Return a configuration file with its values kept, every missing key added, every key commented.

    The comment lines before the first key are kept as well.

    Raises:
        ConfigError: the text has a key or value that `load_config` would refuse.
    """
    header = [line for line in text.split("\n\n")[0].splitlines() if line.startswith("#")]
    tree = config_to_tree(config_from_tree(yaml.safe_load(text) or {}))
    lines = [*header, ""] if header else []
    lines += _assignments(RhinoConfig, tree, "")
    for name, kind in sections().items():
        lines += ["", f"# {_summary(kind)}", f"{name}:"]
        lines += _assignments(kind, tree[name], "  ")
    return "\n".join(lines) + "\n"


def sections() -> dict[str, type]:
    """Return the sections of a configuration and their classes, in order."""
    hints = typing.get_type_hints(RhinoConfig)
    return {f.name: hints[f.name] for f in _fields(RhinoConfig) if _is_section(f)}


def _table(title: str, kind: type) -> str:
    lines = [f"## {title}", "", _summary(kind), ""]
    lines += ["| key | default | unit | bounds | meaning |", "|---|---|---|---|---|"]
    for spec in _options(kind):
        cells = (
            f"`{spec.name}`",
            f"`{_scalar(spec.default)}`",
            spec.metadata["unit"],
            _bounds(spec),
            spec.metadata["doc"].replace("|", "\\|"),
        )
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _assignments(kind: type, values: dict[str, Any], indent: str) -> Iterator[str]:
    for spec in _options(kind):
        unit = f"[{spec.metadata['unit']}] " if spec.metadata["unit"] else ""
        entry = f"{indent}{spec.name}: {_scalar(values[spec.name])}"
        yield f"{entry}  # {unit}{spec.metadata['doc']}"


def _bounds(spec: dataclasses.Field[Any]) -> str:
    low, high = spec.metadata["low"], spec.metadata["high"]
    if low is None and high is None:
        return ""
    if low is None:
        return f"at most {_number(high)}"
    if high is None:
        return f"at least {_number(low)}"
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return {math.pi: "pi", -math.pi: "-pi"}.get(value, f"{value:g}")


def _scalar(value: Any) -> str:
    plain = value.value if isinstance(value, Enum) else value
    return yaml.safe_dump(plain, width=1000).splitlines()[0].replace("''", '""')


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _options(kind: type) -> list[dataclasses.Field[Any]]:
    return [spec for spec in _fields(kind) if not _is_section(spec)]


def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)  # type: ignore[arg-type]


def _is_section(spec: dataclasses.Field[Any]) -> bool:
    return spec.default_factory is not dataclasses.MISSING


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
    for path in sorted(CONFIGS.glob("*.yaml")):
        path.write_text(complete(path.read_text(encoding="utf-8")), encoding="utf-8")
