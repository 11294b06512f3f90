"""The API's bearer token on disk: made, read, replaced. Only its owner may read the file."""

import contextlib
import os
import secrets
from pathlib import Path

from rhino_actors.errors import ConfigError

TOKEN_BYTES = 32
MIN_LENGTH = 16  # characters: what somebody thinks up must not be guessed
_OTHERS = 0o077


def read_token(path: Path) -> str:
    """Return the token of a file.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it holds no token of MIN_LENGTH characters.
    """
    try:
        text = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {path} cannot be read: {error}") from error
    if mode & _OTHERS:
        raise ConfigError(
            f"Others may read the token file {path}.", f"chmod 600 {path}; then rhino token --new."
        )
    if len(text) < MIN_LENGTH or len(text.split()) != 1:
        raise ConfigError(
            f"The token file {path} holds no token of {MIN_LENGTH} characters or more in one word.",
            "rhino token --new writes one.",
        )
    return text


def make_token(path: Path) -> str:
    """Write a new token that nobody can guess, in the place of one that is there, and return it.

    Raises:
        ConfigError: the file cannot be written; what was there is as it was.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner only from its first moment on.
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise ConfigError(f"The token file {path} cannot be written: {error}") from error
    return token
