from collections.abc import Iterator
from typing import IO, Any

import pytest

from rhino_actors.drivers.mujoco import camera_ladder, wire
from rhino_actors.drivers.mujoco.camera_ladder import CameraLadder, picture_format
from rhino_actors.drivers.mujoco.shm import SharedBlock
from tests.simulations import plain_simulation

CONFIG = plain_simulation(camera_width=64, camera_height=32, camera_rate_hz=15.0)


class FakeProcess:
    """Stands in for subprocess.Popen; the test decides how the process fares."""

    started: list["FakeProcess"] = []

    def __init__(
        self, words: list[str], *, env: dict[str, str], stderr: IO[bytes], **__: Any
    ) -> None:
        self.way = words[-1]
        self.library = env["MUJOCO_GL"]
        self.code: int | None = None
        self.killed = False
        self.stderr = stderr
        FakeProcess.started.append(self)

    def die(self, code: int, words: bytes = b"") -> None:
        self.stderr.write(words)
        self.code = code

    def poll(self) -> int | None:
        return self.code

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> int:
        return -9


class Ladder:
    def __init__(self, block: SharedBlock, camera: str) -> None:
        self.block = block
        self.now = 100.0
        config = plain_simulation(**{**vars(CONFIG), "camera": camera})
        self.ladder = CameraLadder(config, block, "{}")
        self.step(0.0)

    @property
    def process(self) -> FakeProcess:
        return FakeProcess.started[-1]

    def step(self, seconds: float = 0.1) -> None:
        self.now += seconds
        self.ladder.step(self.now)

    def picture(self) -> None:
        self.block["camera"].write(b"jpeg")
        self.step()


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedBlock]:
    FakeProcess.started = []
    monkeypatch.setattr(camera_ladder.subprocess, "Popen", FakeProcess)
    block = SharedBlock.create(wire.capacities(CONFIG))
    yield block
    block.close()


def test_the_first_way_that_draws_is_kept_and_named(block: SharedBlock) -> None:
    ladder = Ladder(block, "auto")
    assert ladder.ladder.status == "starting: egl"
    ladder.picture()
    assert ladder.ladder.status == "egl 64x32@15"
    assert [process.way for process in FakeProcess.started] == ["egl"]
    ladder.ladder.close()


def test_a_way_that_never_draws_gives_room_to_the_next_and_at_last_the_camera_is_off(
    block: SharedBlock,
) -> None:
    ladder = Ladder(block, "auto")
    ladder.process.die(1, b"Traceback\nImportError: no EGL here\n")
    ladder.step()
    assert ladder.ladder.status == "starting: osmesa"
    ladder.step()
    assert ladder.process.way == "osmesa"
    ladder.process.die(-6)
    ladder.step()
    assert ladder.ladder.status == "starting: raycast"
    ladder.step()
    assert ladder.process.way == "raycast"
    ladder.process.die(1, b"MemoryError\n")
    ladder.step()
    assert ladder.ladder.status == (
        "off: egl: ImportError: no EGL here; osmesa: killed by signal 6; raycast: MemoryError"
    )
    ladder.step(100.0)
    assert len(FakeProcess.started) == 3


def test_ray_casting_names_no_library_and_says_what_failed_before_it(block: SharedBlock) -> None:
    ladder = Ladder(block, "auto")
    for words in (b"no EGL\n", b"no OSMesa\n"):
        assert ladder.process.library == ladder.process.way
        ladder.process.die(1, words)
        ladder.step()
        ladder.step()
    assert ladder.process.library == "disable"
    ladder.picture()
    assert ladder.ladder.status == "raycast 64x32@5 (egl: no EGL; osmesa: no OSMesa)"
    ladder.ladder.close()


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ((640, 360, 15.0), (160, 90, 5.0)),
        ((64, 48, 2.0), (64, 48, 2.0)),
        ((320, 32, 5.0), (160, 16, 5.0)),
    ],
)
def test_ray_casting_gives_no_more_than_it_can_and_keeps_the_shape(
    wanted: tuple[int, int, float], given: tuple[int, int, float]
) -> None:
    width, height, rate = wanted
    config = plain_simulation(camera_width=width, camera_height=height, camera_rate_hz=rate)
    assert picture_format("raycast", config) == given
    assert picture_format("egl", config) == wanted


def test_only_the_way_that_was_asked_for_is_tried(block: SharedBlock) -> None:
    for way in ("egl", "osmesa", "raycast"):
        FakeProcess.started = []
        ladder = Ladder(block, way)
        ladder.process.die(1)
        ladder.step()
        assert ladder.ladder.status.startswith(f"off: {way}")
        assert [process.way for process in FakeProcess.started] == [way]


def test_a_camera_that_is_switched_off_starts_nothing(block: SharedBlock) -> None:
    ladder = Ladder(block, "off")
    ladder.step(10.0)
    assert FakeProcess.started == []
    assert ladder.ladder.status.startswith("off: ")


def test_a_process_that_dies_after_pictures_is_restarted_a_few_times_then_given_up(
    block: SharedBlock,
) -> None:
    ladder = Ladder(block, "egl")
    for restart in range(camera_ladder.MAX_RESTARTS):
        ladder.picture()
        ladder.process.die(-11)
        ladder.step()
        assert ladder.ladder.status == "off: restarting after: killed by signal 11"
        ladder.step(10.0)
        assert len(FakeProcess.started) == restart + 2
    ladder.picture()
    assert ladder.ladder.status == "egl 64x32@15"
    ladder.process.die(-11)
    ladder.step()
    assert ladder.ladder.status == "off: egl: killed by signal 11"


def test_restarts_are_forgotten_after_a_good_while(block: SharedBlock) -> None:
    ladder = Ladder(block, "egl")
    for _ in range(3 * camera_ladder.MAX_RESTARTS):
        for _ in range(20):
            ladder.step(camera_ladder.STEADY_TIME / 15)
            ladder.picture()
        ladder.process.die(-11)
        ladder.step()
        ladder.step(10.0)
    assert ladder.process.code is None
    ladder.ladder.close()


@pytest.mark.parametrize("draws_first", [False, True])
def test_a_process_that_hangs_is_killed(block: SharedBlock, draws_first: bool) -> None:
    ladder = Ladder(block, "egl")
    if draws_first:
        ladder.picture()
    process = ladder.process
    ladder.step(5.0)
    assert not process.killed
    ladder.step(camera_ladder.FIRST_PICTURE_TIMEOUT)
    assert process.killed
    assert "no picture" in ladder.ladder.status
