"""Places as files: every digit comes back, and what is not a list of places is refused whole, saying where."""

import csv
import io
import json
import math

import pytest

from rhino_actors.errors import PoiFileInvalid
from rhino_actors.messages.poi import Poi
from rhino_actors.storage.poi_files import (
    MAX_FILE_BYTES,
    MAX_PLACES,
    read_places,
    to_csv,
    to_geojson,
)

ID = "11111111-1111-4111-8111-11111111111"
LABELS = [
    "kitchen",
    "🐶厨房",
    'a "quoted", label; with, commas',
    "'); DROP TABLE pois;--",
    "<img src=x onerror=alert(1)>",
    '=HYPERLINK("http://example.com","x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "'=1",
    "''=1",
    "'hello",
    "'",
    " =1 ",
    "＝1",
    "  edge ",
]


def places() -> tuple[Poi, ...]:
    numbers = (0.1 + 0.2, -0.0, 1e-300, -12345.678901234567, math.pi, 5e-324)
    return tuple(
        Poi(
            f"{ID}{n:x}",
            "go2",
            label,
            numbers[n % 6],
            numbers[(n + 1) % 6],
            numbers[(n + 2) % 6],
            f"{ID}f" if n % 2 else None,
            1700000000.0 + n / 7,
        )
        for n, label in enumerate(LABELS)
    )


@pytest.mark.parametrize("write", [to_csv, to_geojson])
def test_what_is_written_is_read_without_loss(write: object) -> None:
    pois = places()
    read = read_places(write(pois))  # type: ignore[operator]
    again = tuple(
        Poi(e.id or "", "go2", e.label, e.x, e.y, e.z, e.map_id, e.created_at or 0.0) for e in read
    )
    assert again == pois and all(entry.has_map_id for entry in read)
    assert [math.copysign(1, a.y) for a in again] == [math.copysign(1, a.y) for a in pois]


def test_no_cell_of_a_csv_is_a_formula() -> None:
    for row in csv.reader(io.StringIO(to_csv(places()).decode())):
        assert row[1].lstrip()[:1] not in ("=", "+", "-", "@", "＝"), row[1]


def test_geojson_is_a_feature_collection_of_points() -> None:
    data = json.loads(to_geojson(places()[:1]))
    assert data["type"] == "FeatureCollection" and data["frame"] == {"name": "map", "unit": "m"}
    assert data["features"][0]["geometry"] == {
        "type": "Point",
        "coordinates": [0.1 + 0.2, -0.0, 1e-300],
    }


def test_a_file_made_by_hand_needs_label_x_and_y_only() -> None:
    (entry,) = read_places("\ufeffX, y ,Label,note\r\n1,-2.5,door,x\r\n\r\n".encode())
    assert (entry.label, entry.x, entry.y, entry.z) == ("door", 1.0, -2.5, 0.0)
    assert entry.id is None and entry.created_at is None and not entry.has_map_id
    feature = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [1, 2]},
        "properties": {"label": "door", "fid": 3},
    }
    (entry,) = read_places(
        json.dumps({"type": "FeatureCollection", "features": [feature]}).encode()
    )
    assert (entry.label, entry.x, entry.y, entry.z, entry.has_map_id) == (
        "door",
        1.0,
        2.0,
        0.0,
        False,
    )


def collection(*features: str) -> str:
    return f'{{"type": "FeatureCollection", "features": [{", ".join(features)}]}}'


def feature(coordinates: str = "[1, 2]", label: str = '"a"', more: str = "") -> str:
    return (
        f'{{"type": "Feature", "geometry": {{"type": "Point", "coordinates": {coordinates}}},'
        f' "properties": {{"label": {label}}}{more}}}'
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("a,b\n1,2\n", "Line 1: .*no label, x, y"),
        ("label,x,y,x\na,1,2,3\n", "Line 1: the column x is there twice"),
        ("label,x,y\na,1,2\nb,1\n", "Line 3: it has 2 cells"),
        ("label,x,y\na,1,2\n\nb,one,2\n", "Line 4: x is no number"),
        ("label,x,y\na,nan,2\n", "Line 2: x is not finite"),
        ("label,x,y\na,1e999,2\n", "Line 2: x is not finite"),
        ("label,x,y\n,1,2\n", "Line 2: The label is empty"),
        (f"label,x,y\n{'x' * 201},1,2\n", "Line 2: The label has 201"),
        ('label,x,y\n"a\nb",1,2\n', "Line 2: The label has control"),
        ("label,x,y\na\0b,1,2\n", "Line 2: "),
        ('label,x,y\n"a,1,2\n', "Line 2: "),
        ('label,x,y\n"a"b,1,2\n', "Line 2: "),
        (f'label,x,y\n"{"x" * 200_000}",1,2\n', "Line 2: field larger"),
        ("label,x,y,id\na,1,2,../../etc\n", "Line 2: id is no UUID"),
        (f"label,x,y,id\na,1,2,{ID}1\nb,1,2,{ID}1\n", "Line 3: it has the id of line 2"),
        ("label,x,y\n" + "a,1,2\n" * (MAX_PLACES + 1), f"Line {MAX_PLACES + 2}: .*at most"),
        ("{", "Line 1: .*column"),
        ('{\n "type": \n', "Line 3: "),
        ("[1, 2]", "no FeatureCollection"),
        ('{"type": "FeatureCollection"}', "no FeatureCollection"),
        ("[" * 100_000, "cannot be read|Line 1"),
        (collection("1" * 5000), "cannot be read"),
        (collection("3"), "Feature 1: it is no Feature"),
        (collection(feature(), feature('"x"')), "Feature 2: its coordinates"),
        (collection(feature("[1]")), "Feature 1: its coordinates"),
        (collection(feature("[1, true]")), "Feature 1: y is no number"),
        (collection(feature("[1, NaN]")), "NaN"),
        (collection(feature("[1, -Infinity]")), "-Infinity"),
        (collection(feature("[1, 1e999]")), "Feature 1: y is not finite"),
        (collection(feature(label="3")), "Feature 1: A label is text"),
        (collection(feature(label='"a\\ud800"')), "Feature 1: The label has control"),
        (collection(feature(more=', "id": 3')), "Feature 1: id is no UUID"),
        (collection(feature(more=', "id": ["x"]')), "Feature 1: id is no UUID"),
    ],
)
def test_what_is_no_list_of_places_is_refused_saying_where(text: str, says: str) -> None:
    with pytest.raises(PoiFileInvalid, match=says):
        read_places(text.encode("utf-8", "surrogatepass"))


def test_bytes_that_are_no_text_and_too_many_are_refused() -> None:
    with pytest.raises(PoiFileInvalid, match="Line 2: it is not UTF-8"):
        read_places(b"label,x,y\n\xff,1,2\n")
    with pytest.raises(PoiFileInvalid, match="are the most"):
        read_places(b" " * (MAX_FILE_BYTES + 1))
