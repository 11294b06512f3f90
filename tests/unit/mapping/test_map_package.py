"""A map as files and as a zip: the whole way round, and archives made to do harm."""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import yaml

from rhino_actors.errors import MapFileInvalid, MapTooLarge
from rhino_actors.mapping import (
    decode_files,
    encode_files,
    known_part,
    map_package,
    pack_zip,
    thumbnail,
    unpack_zip,
)
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.maps import MapContent


def content(seed: int = 0, voxels: bool = True) -> MapContent:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 90)), int(rng.integers(1, 90)))
    occupancy = rng.choice(np.array([-1, 0, 100], np.int8), shape)
    geometry = GridGeometry(float(rng.uniform(0.01, 0.3)), tuple(rng.normal(0, 50, 2)), shape)
    points = rng.normal(0, 20, (int(rng.integers(1, 200)), 3)).astype(np.float32)
    return MapContent(geometry, occupancy, points if voxels else None)


def map_server_cells(files: dict[str, bytes]) -> tuple[list[list[int]], list[float], float]:
    """Read a map by the rules that Nav2's map server publishes; written apart from the code under test.

    occ = (255 - pixel) / 255; above occupied_thresh 100, below free_thresh 0, else -1. Image row 0 is the highest y.
    """
    described = yaml.safe_load(files["map.yaml"])
    assert described["mode"] == "trinary" and described["negate"] == 0
    image = cv2.imdecode(np.frombuffer(files[described["image"]], np.uint8), cv2.IMREAD_UNCHANGED)
    cells = []
    for line in image[::-1]:
        row = []
        for pixel in line:
            occ = (255 - int(pixel)) / 255.0
            known = 100 if occ > described["occupied_thresh"] else 0
            row.append(known if known or occ < described["free_thresh"] else -1)
        cells.append(row)
    return cells, described["origin"], described["resolution"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("voxels", [True, False])
def test_a_map_comes_back_from_its_zip_as_it_was(seed: int, voxels: bool) -> None:
    whole = content(seed, voxels)
    files = encode_files(whole)
    assert unpack_zip(pack_zip(files)) == files
    back = decode_files(unpack_zip(pack_zip(files)))
    assert back.geometry == whole.geometry
    assert np.array_equal(back.occupancy, whole.occupancy)
    if whole.voxels is None:
        assert back.voxels is None
    else:
        assert back.voxels is not None and np.array_equal(back.voxels, whole.voxels)


def test_a_map_server_reads_what_is_exported() -> None:
    whole = content(5)
    cells, origin, resolution = map_server_cells(unpack_zip(pack_zip(encode_files(whole))))
    assert cells == whole.occupancy.tolist()
    assert (*origin, resolution) == (*whole.geometry.origin, 0.0, whole.geometry.resolution)


def test_another_unzip_reads_the_zip_and_the_same_map_gives_the_same_bytes() -> None:
    packed = pack_zip(encode_files(content(1)))
    assert packed == pack_zip(encode_files(content(1)))
    # The first local record, taken apart by hand.
    signature, method = packed[:4], struct.unpack_from("<H", packed, 8)[0]
    crc, size, plain, name, extra = struct.unpack_from("<IIIHH", packed, 14)
    assert (signature, method, packed[30 : 30 + name]) == (b"PK\x03\x04", 8, b"map.yaml")
    start = 30 + name + extra
    text = zlib.decompress(packed[start : start + size], -15)
    assert len(text) == plain and zlib.crc32(text) == crc
    assert yaml.safe_load(text)["image"] == "map.pgm"


def test_a_ros_map_in_a_folder_with_an_absolute_image_path_is_read() -> None:
    whole = content(2, voxels=False)
    files = encode_files(whole)
    text = files["map.yaml"].replace(b"image: map.pgm", b"image: /home/ann/maps/office.pgm")
    packed = zipped(
        {
            "office/office.yaml": text,
            "office/office.pgm": files["map.pgm"],
            "office/readme.md": b"hello",
            "office/.DS_Store": b"x",
            "__MACOSX/._office.yaml": b"x",
        }
    )
    back = decode_files(unpack_zip(packed))
    assert np.array_equal(back.occupancy, whole.occupancy)


def zipped(
    files: dict[str, bytes], change: Callable[[zipfile.ZipInfo], None] | None = None
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            if change:
                change(entry)
            archive.writestr(entry, data)
    return buffer.getvalue()


GOOD = encode_files(content(3))


@pytest.mark.parametrize(
    "name",
    [
        "../map.yaml",
        "/etc/map.yaml",
        "a/../../map.yaml",
        "a/b/map.yaml",
        "..\\map.yaml",
        "C:\\map.yaml",
        "C:map.yaml",
        "ma\np.yaml",
        "x" * 300 + ".yaml",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(MapFileInvalid, match="name"):
        unpack_zip(zipped({**GOOD, name: b"x"}))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_a_link_or_device_in_the_zip_is_refused(kind: int) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = (kind | 0o777) << 16

    with pytest.raises(MapFileInvalid, match="not a plain file"):
        unpack_zip(zipped(GOOD, change))


def test_a_bomb_is_refused_without_being_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MapTooLarge):
        unpack_zip(zipped({**GOOD, "map.yaml": bytes(70_000)}))
    monkeypatch.setitem(map_package._LIMITS, ".pgm", 1000)
    opened: list[str] = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *a, **_: opened.append("opened"))
    with pytest.raises(MapTooLarge, match="10000000"):
        unpack_zip(zipped_before({"map.pgm": bytes(10_000_000)}))
    assert opened == []


def zipped_before(files: dict[str, bytes]) -> bytes:
    """A zip made by hand, for when zipfile's own methods are replaced."""
    body, directory = b"", b""
    for name, data in files.items():
        packed = zlib.compress(data, 9)[2:-4]
        facts = struct.pack(
            "<5H3L2H", 20, 0, 8, 0, 33, zlib.crc32(data), len(packed), len(data), len(name), 0
        )
        place = struct.pack("<3H2L", 0, 0, 0, 0, len(body))
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + facts + place + name.encode()
        body += b"PK\x03\x04" + facts + name.encode() + packed
    end = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, len(files), len(files), len(directory), len(body), 0
    )
    return body + directory + end


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    honest = zipped_before({"map.yaml": bytes(70_000)})
    assert honest.count(struct.pack("<L", 70_000)) == 2
    lying = honest.replace(struct.pack("<L", 70_000), struct.pack("<L", 100))
    with pytest.raises(MapFileInvalid):
        unpack_zip(lying)


def test_a_directory_of_a_million_files_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = zipped({f"{n}.txt": b"" for n in range(65)})
    long = bytearray(zipped(GOOD))
    struct.pack_into("<L", long, len(long) - 10, 1_000_000)  # says few files, and a huge directory
    end = zipped(GOOD)[-22:]
    with_64 = zipped(GOOD)[:-22] + b"PK\x06\x07" + bytes(16) + end
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("it was opened"))
    for archive in (many, bytes(long), with_64):
        with pytest.raises(MapFileInvalid):
            unpack_zip(archive)


def damaged() -> dict[str, bytes]:
    good = zipped(GOOD)
    torn = bytearray(good)
    torn[60:90] = b"\xff" * 30
    encrypted = bytearray(zipped(GOOD))
    for at in (encrypted.find(b"PK\x03\x04") + 6, encrypted.find(b"PK\x01\x02") + 8):
        encrypted[at] |= 1
    odd = bytearray(zipped(GOOD))
    for at in (odd.find(b"PK\x03\x04") + 8, odd.find(b"PK\x01\x02") + 10):
        odd[at] = 99
    return {
        "empty": b"",
        "text": b"this is no zip at all, only text" * 3,
        "cut": good[:-30],
        "torn": bytes(torn),
        "comment": good[:-2] + b"\x05\x00hello",
        "encrypted": bytes(encrypted),
        "method": bytes(odd),
        "tail": good + b"x",
    }


@pytest.mark.parametrize("case", sorted(damaged()))
def test_a_damaged_zip_is_refused_with_a_hint(case: str) -> None:
    with pytest.raises(MapFileInvalid) as caught:
        unpack_zip(damaged()[case])
    assert caught.value.hint and caught.value.message.endswith(".")


@pytest.mark.parametrize("seed", range(40))
def test_no_change_of_a_byte_does_more_than_be_refused_or_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    packed = bytearray(zipped(GOOD))
    for _ in range(3):
        packed[int(rng.integers(len(packed)))] = int(rng.integers(256))
    try:
        decode_files(unpack_zip(bytes(packed)))
    except MapFileInvalid:
        pass


def test_a_zip_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_package, "MAX_ZIP_BYTES", 100)
    with pytest.raises(MapTooLarge):
        unpack_zip(zipped(GOOD))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"map.pgm": GOOD["map.pgm"]},
        {"map.yaml": GOOD["map.yaml"]},
        {**GOOD, "second.yaml": GOOD["map.yaml"]},
        {**GOOD, "second.ply": GOOD["map.ply"]},
        {**GOOD, "map.ply": b"ply\n"},
        {**GOOD, "map.pgm": b"P2\n"},
        {**GOOD, "map.yaml": b"image: ../../etc/passwd\n" + GOOD["map.yaml"].split(b"\n", 1)[1]},
    ],
)
def test_files_that_are_no_map_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(MapFileInvalid):
        decode_files(files)


def test_aliases_that_stand_for_gigabytes_are_refused_at_once() -> None:
    levels = "\n".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "a0: &a0 [x]" for n in range(12)
    )
    text = GOOD["map.yaml"].decode().replace("origin:", "other:")
    with pytest.raises(MapFileInvalid, match="not YAML"):
        decode_files({**GOOD, "map.yaml": f"{levels}\n{text}origin: [*a11, 0, 0]\n".encode()})


def test_objects_in_yaml_are_not_made() -> None:
    text = GOOD["map.yaml"] + b"more: !!python/object/apply:os.system ['touch /tmp/pwned']\n"
    with pytest.raises(MapFileInvalid):
        decode_files({**GOOD, "map.yaml": text})


def test_a_thumbnail_is_small_and_shows_every_wall_of_the_known_part() -> None:
    occupancy = np.full((2000, 1000), -1, np.int8)
    occupancy[500:1500, 200:700] = 0
    occupancy[900, 200:700] = 100  # a wall of one cell
    known = known_part(MapContent(GridGeometry(0.1, (-3.0, 2.0), (2000, 1000)), occupancy))
    assert known.geometry.shape == (1000, 500)
    assert known.geometry.origin == pytest.approx((17.0, 52.0))
    picture = cv2.imdecode(
        np.frombuffer(thumbnail(known.occupancy), np.uint8), cv2.IMREAD_UNCHANGED
    )
    assert max(picture.shape) <= 160 and picture.shape == (143, 72)
    assert set(np.unique(picture)) == {0, 254}
    dark = np.nonzero((picture == 0).all(axis=1))[0]
    assert dark.tolist() == [142 - (900 - 500) // 7]
    nothing = MapContent(GridGeometry(0.1, (0.0, 0.0), (5, 7)), np.full((5, 7), -1, np.int8))
    assert known_part(nothing) is nothing
    unknown = cv2.imdecode(
        np.frombuffer(thumbnail(nothing.occupancy), np.uint8), cv2.IMREAD_UNCHANGED
    )
    assert unknown.shape == (5, 7) and (unknown == 205).all()
