"""The token file: nobody else reads it, and what it holds cannot be guessed."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rhino_actors import main
from rhino_actors.access_token import MIN_LENGTH, make_token, read_token
from rhino_actors.cli import app
from rhino_actors.config import token_path
from rhino_actors.errors import ConfigError


def test_a_new_token_is_read_back_and_only_its_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "state" / "token"
    umask = os.umask(0)
    try:
        token = make_token(path)
    finally:
        os.umask(umask)
    assert read_token(path) == token and len(token) > 2 * MIN_LENGTH
    assert path.stat().st_mode & 0o777 == 0o600
    assert make_token(path) != token, "replaced"
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_a_file_that_cannot_be_written_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        make_token(tmp_path / "file" / "token")


def test_the_command_makes_a_token_once_and_replaces_it_when_asked() -> None:
    first = CliRunner().invoke(app, ["token"])
    assert first.exit_code == 0 and first.stdout.strip() == read_token(token_path())
    assert CliRunner().invoke(app, ["token"]).stdout == first.stdout
    second = CliRunner().invoke(app, ["token", "--new"])
    assert second.stdout != first.stdout and second.stdout.strip() == read_token(token_path())


def test_a_deployment_that_others_could_reach_needs_a_token_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(main, "Deployment", start)
    refused = CliRunner().invoke(app, ["deploy", "test", "--host", "0.0.0.0"])
    assert isinstance(refused.exception, ConfigError) and "rhino token" in refused.exception.hint
    make_token(token_path())
    allowed = CliRunner().invoke(app, ["deploy", "test", "--host", "0.0.0.0"])
    assert isinstance(allowed.exception, AssertionError)
