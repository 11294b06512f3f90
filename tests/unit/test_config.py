"""Configuration: what overrides what, and where files lie."""

from enum import Enum
from pathlib import Path

import pytest

from rhino_actors.config import (
    RhinoConfig,
    StoreConfig,
    config_from_tree,
    config_to_tree,
    data_dir,
    database_path,
    load_config,
    state_dir,
)
from rhino_actors.errors import ConfigError
from rhino_actors.messages.navigation import NavMode


def test_an_empty_tree_gives_the_defaults() -> None:
    assert repr(config_from_tree({})) == repr(RhinoConfig())
    assert repr(config_from_tree({"gate": None})) == repr(RhinoConfig())


def test_the_tree_of_a_config_builds_the_same_config() -> None:
    config = config_from_tree({"planner": {"mode": "direct"}, "gate": {"max_vx": 0.4}})
    assert repr(config_from_tree(config_to_tree(config))) == repr(config)


def test_the_tree_is_plain_values() -> None:
    for section in config_to_tree(RhinoConfig()).values():
        for value in section.values() if isinstance(section, dict) else [section]:
            assert isinstance(value, (str, int, float, bool)) and not isinstance(value, Enum)


def test_only_what_is_given_changes_and_whole_numbers_become_floats() -> None:
    config = config_from_tree({"gate": {"max_vx": 1, "zero_repeats": 6}})
    assert config.gate.max_vx == 1.0 and isinstance(config.gate.max_vx, float)
    assert config.gate.zero_repeats == 6
    assert config.gate.max_vy == RhinoConfig().gate.max_vy
    assert config.follower == RhinoConfig().follower


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RhinoConfig().gate.max_vx = 9.0  # type: ignore[misc]


def test_enums_are_given_by_value_and_unknown_ones_name_the_known() -> None:
    assert config_from_tree({"planner": {"mode": "direct"}}).planner.mode is NavMode.DIRECT
    with pytest.raises(ConfigError, match="astar, direct"):
        config_from_tree({"planner": {"mode": "teleport"}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gate: [1, 2]", "gate must be a section"),
        ("gate: 5", "gate must be a section"),
        ("- driver", "not a mapping"),
        ("{driver: fake", "is not YAML"),
        ("driver: boat", "Known drivers: mujoco, fake"),
        ("robot: {name: 'a/b'}", "letters, digits"),
        ("robot: {name: ''}", "letters, digits"),
        ("robot: {name: 'büro'}", "letters, digits"),
        ("robot: {inflation_radius: 0.2}", "raise inflation_radius"),
        ("viewer: {enabled: 1}", "true or false"),
        ("store: {path: 5}", "must be text"),
        ("gate: {zero_repeats: 5.5}", "a whole number"),
        ("gate: {max_vx: .nan}", "outside 0.05 to 3.0 m/s"),
        ("1: 2", "Unknown key 1"),
        ("\0", "is not YAML"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert repr(load_config(path)) == repr(RhinoConfig())


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00driver")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)


@pytest.mark.parametrize("source", ["nope", "", "../sim", "nope.yaml"])
def test_a_missing_configuration_names_what_there_is(source: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    assert "built-in" in caught.value.hint.lower()


def test_overrides_beat_the_file_and_are_checked_like_it() -> None:
    config = load_config("test", {"mujoco.seed": 3, "driver": "mujoco"})
    assert (config.mujoco.seed, config.driver) == (3, "mujoco")
    with pytest.raises(ConfigError, match="Unknown key mujoco.sead"):
        load_config("test", {"mujoco.sead": 3})
    with pytest.raises(ConfigError, match="driver is not a section"):
        load_config("test", {"driver.name": 3})


def test_the_environment_sets_the_port_unless_an_override_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RHINO_PORT", "8123")
    assert load_config("test").server.port == 8123
    assert load_config("test", {"server.port": 8200}).server.port == 8200
    for bad in ("", "eight", "0", "70000", "80.5"):
        monkeypatch.setenv("RHINO_PORT", bad)
        with pytest.raises(ConfigError):
            load_config("test")


def test_folders_follow_the_xdg_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_dir() == tmp_path / "data" / "rhino"
    assert state_dir() == tmp_path / "state" / "rhino"
    assert database_path(RhinoConfig()) == data_dir() / "rhino.db"
    assert database_path(RhinoConfig(store=StoreConfig(path="/x/y.db"))) == Path("/x/y.db")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert database_path(RhinoConfig(store=StoreConfig(path="~/y.db"))) == tmp_path / "y.db"
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, "")
    assert data_dir() == tmp_path / ".local" / "share" / "rhino"
    assert state_dir() == tmp_path / ".local" / "state" / "rhino"


def test_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("gate:\n  max_vx: 0.4\n  max_vy: 0.2\n  max_vx: 0.9\n")
    with pytest.raises(ConfigError, match="max_vx"):
        load_config(path)


def test_absurdly_deep_file_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 5000)
    with pytest.raises(ConfigError):
        load_config(path)
