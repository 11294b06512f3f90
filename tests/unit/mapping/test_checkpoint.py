"""Checkpoints: whole or not at all."""

from pathlib import Path

import numpy as np
import pytest

from rhino_actors.errors import StorageError
from rhino_actors.mapping import OccupancyMapper, load_checkpoint, save_checkpoint


@pytest.fixture
def state() -> dict[str, np.ndarray]:
    mapper = OccupancyMapper(0.1)
    mapper.integrate([[2.0, 1.0, 0.3]], (0.0, 0.0, 0.3))
    return mapper.state()


def test_state_comes_back_as_it_was(tmp_path: Path, state: dict[str, np.ndarray]) -> None:
    path = tmp_path / "new" / "folder" / "map.npz"

    save_checkpoint(path, state)
    save_checkpoint(path, state)
    back = load_checkpoint(path)

    assert back.keys() == state.keys()
    assert all(np.array_equal(back[name], state[name]) for name in state)
    assert [p.name for p in path.parent.iterdir()] == ["map.npz"]


def test_failed_write_leaves_the_earlier_checkpoint(
    tmp_path: Path, state: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "map.npz"
    save_checkpoint(path, state)

    def full(file: object, **_: object) -> None:
        file.write(b"PK")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(StorageError, match="No space"):
        save_checkpoint(path, {})

    assert load_checkpoint(path).keys() == state.keys()


def test_missing_or_damaged_checkpoint_is_a_storage_error(
    tmp_path: Path, state: dict[str, np.ndarray]
) -> None:
    path = tmp_path / "map.npz"
    with pytest.raises(StorageError):
        load_checkpoint(path)
    save_checkpoint(path, state)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    broken = [b"", b"PK\x03\x04", b"nonsense" * 9, whole[: len(whole) // 2], whole[:-30]]
    for _ in range(100):
        hit = bytearray(whole)
        for at in rng.integers(0, len(whole), 20):
            hit[at] ^= int(rng.integers(1, 256))
        broken.append(bytes(hit))
    for content in broken:
        path.write_bytes(content)
        try:
            OccupancyMapper(0.1).restore(load_checkpoint(path))
        except StorageError:
            continue


def test_checkpoint_with_code_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    np.savez(path, evidence=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(StorageError):
        load_checkpoint(path)
