"""Every file in configs/ loads and is complete; a mistake in one is refused with what is known."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rhino_actors.config import RhinoConfig, config_from_tree, config_to_tree, load_config
from rhino_actors.errors import ConfigError

FOLDER = Path(__file__).resolve().parent.parent / "configs"
FILES = sorted(FOLDER.glob("*.yaml"))
# How the others may differ from the defaults that sim.yaml spells out.
DIFFER = {
    "go2": {"driver"},
    "test": {
        "driver",
        "viewer.enabled",
        "viewer.grpc_port",
        "viewer.web_port",
        "ray.dashboard",
        "ray.object_store_mb",
    },
}


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat


DEFAULTS = _flat(config_to_tree(RhinoConfig()))
NUMBERS = [
    key
    for key, value in DEFAULTS.items()
    if isinstance(value, (int, float)) and value is not True and value is not False
]


def _nested(dotted: str, value: Any) -> dict[str, Any]:
    *parents, last = dotted.split(".")
    tree: dict[str, Any] = {last: value}
    for name in reversed(parents):
        tree = {name: tree}
    return tree


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_file_loads_by_name_and_by_path(path: Path) -> None:
    assert repr(load_config(path.stem)) == repr(load_config(path))  # repr: nan is not equal to nan


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_file_names_every_key(path: Path) -> None:
    assert _flat(yaml.safe_load(path.read_text(encoding="utf-8"))).keys() == DEFAULTS.keys()


def test_sim_holds_the_defaults() -> None:
    assert repr(load_config("sim")) == repr(RhinoConfig())


@pytest.mark.parametrize("name", DIFFER)
def test_others_differ_from_sim_only_where_they_must(name: str) -> None:
    sim, other = (_flat(config_to_tree(load_config(source))) for source in ("sim", name))
    assert {key for key in sim if repr(sim[key]) != repr(other[key])} == DIFFER[name]


@pytest.mark.parametrize(
    "section", ["", *sorted({key.split(".")[0] for key in DEFAULTS if "." in key})]
)
def test_a_typo_is_refused_and_the_known_keys_are_named(section: str) -> None:
    where = f"{section}.max_vxx" if section else "max_vxx"
    with pytest.raises(ConfigError) as caught:
        config_from_tree(_nested(where, 1))
    assert where in caught.value.message
    known = [key.removeprefix(f"{section}.") for key in DEFAULTS if key.startswith(f"{section}.")]
    for key in known if section else ["driver", "gate"]:
        assert key in caught.value.hint


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("bad", ["0.5 m", "fast", True, [1], {"value": 1}, None, float("inf")])
def test_a_number_with_a_unit_or_of_another_kind_is_refused_by_name(key: str, bad: Any) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        config_from_tree(_nested(key, bad))


@pytest.mark.parametrize(
    ("key", "bad", "bounds"),
    [
        ("gate.max_vx", 100.0, "0.05 to 3.0 m/s"),
        ("gate.zero_repeats", 4, "5 to 1000"),
        ("gate.dead_man_s", 250, "0.05 to 2.0 s"),
        ("robot.inscribed_radius", 30, "0.05 to 2.0 m"),
        ("fake.start_yaw", 90, "rad"),
        ("server.port", 0, "1 to 65535"),
        ("mujoco.seed", -1, "0 to inf"),
        ("gate.max_vx", 10**400, "0.05 to 3.0 m/s"),
        ("mujoco.start_timeout_s", 10**400, "1.0 to inf s"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_value_out_of_bounds_is_refused_with_the_bounds_and_unit(
    key: str, bad: float, bounds: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_tree(_nested(key, bad))
    assert key in caught.value.message
    assert bounds in caught.value.message
