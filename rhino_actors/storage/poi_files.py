"""Places as files, GeoJSON and CSV, and back without loss. Pure: no file, no database.

Both keep every digit of every number. What is read was written by anybody: it is taken whole or not at all, and the
error names the line of a CSV, or the place of a GeoJSON, that is wrong.

A spreadsheet takes a cell that begins with = + - or @ for a formula. A label that does is written to CSV with an
apostrophe before it, which is taken off again when the file is read.
"""

import csv
import io
import json
import math
import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rhino_actors.errors import InvalidLabel, PoiFileInvalid
from rhino_actors.messages.poi import Poi
from rhino_actors.storage.database import check_label

MAX_FILE_BYTES = 1_000_000
MAX_PLACES = 2000
COLUMNS = ("id", "label", "x", "y", "z", "map_id", "created_at")

_HINT = "Nothing was taken over; rhino poi export shows what a file looks like."


@dataclass(frozen=True)
class PoiEntry:
    """One place of a file. What the file leaves out is None, but for `map_id`, see there."""

    where: str  # "line 3" of a CSV, "feature 2" of a GeoJSON
    label: str
    x: float  # [m]
    y: float  # [m]
    z: float  # [m]
    id: str | None = None  # UUID
    map_id: str | None = None  # of a saved map; None: of the running one
    has_map_id: bool = False  # the file says which map; otherwise it is the one in force
    created_at: float | None = None  # [s] since the Unix epoch


def to_csv(pois: Sequence[Poi]) -> bytes:
    """Return the places as CSV, UTF-8: a line of COLUMNS, then one line for each place, in their order."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for poi in pois:
        label = f"'{poi.label}" if _looks_like_formula(poi.label) else poi.label
        numbers = (repr(poi.x), repr(poi.y), repr(poi.z))
        writer.writerow((poi.id, label, *numbers, poi.map_id or "", repr(poi.created_at)))
    return text.getvalue().encode()


def to_geojson(pois: Sequence[Poi]) -> bytes:
    """Return the places as a FeatureCollection of points, in their order.

    The coordinates are metres in the frame `map` of each place's map, not degrees of longitude and latitude; the
    member `frame` says so.
    """
    features = [
        {
            "type": "Feature",
            "id": poi.id,
            "geometry": {"type": "Point", "coordinates": [poi.x, poi.y, poi.z]},
            "properties": {
                "label": poi.label,
                "map_id": poi.map_id,
                "created_at": poi.created_at,
            },
        }
        for poi in pois
    ]
    collection = {
        "type": "FeatureCollection",
        "frame": {"name": "map", "unit": "m"},
        "features": features,
    }
    return json.dumps(collection, ensure_ascii=False, indent=1).encode()


def read_places(content: bytes) -> tuple[PoiEntry, ...]:
    """Read a GeoJSON or CSV file, told apart by its first character. Raises PoiFileInvalid."""
    if len(content) > MAX_FILE_BYTES:
        raise PoiFileInvalid(
            f"The file has {len(content)} bytes; {MAX_FILE_BYTES} are the most.", _HINT
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _invalid(f"line {line}", "it is not UTF-8") from error
    if not text.strip():
        raise PoiFileInvalid("The file is empty.", _HINT)
    entries: list[PoiEntry] = []
    lines: dict[str, str] = {}  # where an id was seen first
    for entry in _geojson(text) if text.lstrip()[0] in "{[" else _csv(text):
        if len(entries) == MAX_PLACES:
            raise _invalid(entry.where, f"a file has at most {MAX_PLACES} places")
        if entry.id is not None:
            if entry.id in lines:
                raise _invalid(entry.where, f"it has the id of {lines[entry.id]}")
            lines[entry.id] = entry.where
        entries.append(entry)
    return tuple(entries)


def _csv(text: str) -> Iterator[PoiEntry]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    while True:
        where = f"line {reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise _invalid(where, str(error)) from error
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = _header(where, row)
        elif len(row) != len(header):
            raise _invalid(where, f"it has {len(row)} cells, the first line has {len(header)}")
        else:
            yield _of_cells(where, dict(zip(header, row, strict=True)))


def _header(where: str, row: Sequence[str]) -> list[str]:
    header = [cell.strip().lower() for cell in row]
    missing = [name for name in ("label", "x", "y") if name not in header]
    if missing:
        raise _invalid(where, f"it must name the columns, and has no {', '.join(missing)}")
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise _invalid(where, f"the column {twice[0]} is there twice")
    return header


def _of_cells(where: str, cells: Mapping[str, str]) -> PoiEntry:
    label = cells["label"]
    if label.startswith("'") and _looks_like_formula(label[1:]):
        label = label[1:]
    created_at = cells.get("created_at", "").strip()
    return PoiEntry(
        where=where,
        label=_label(where, label),
        x=_parsed(where, "x", cells["x"]),
        y=_parsed(where, "y", cells["y"]),
        z=_parsed(where, "z", cells.get("z", "").strip() or "0"),
        id=_uuid(where, "id", cells.get("id", "").strip() or None),
        map_id=_uuid(where, "map_id", cells.get("map_id", "").strip() or None),
        has_map_id="map_id" in cells,
        created_at=_parsed(where, "created_at", created_at) if created_at else None,
    )


def _geojson(text: str) -> Iterator[PoiEntry]:
    def refuse(name: str) -> None:
        raise PoiFileInvalid(f"The file has the number {name}, which JSON does not know.", _HINT)

    try:
        data = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise _invalid(f"line {error.lineno}", f"{error.msg}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all bounds
        raise PoiFileInvalid(f"The file cannot be read: {error}.", _HINT) from error
    features = data.get("features") if isinstance(data, dict) else None
    if not isinstance(features, list) or data.get("type") != "FeatureCollection":
        raise PoiFileInvalid("The file is JSON, but no FeatureCollection of GeoJSON.", _HINT)
    for number, feature in enumerate(features, 1):
        yield _of_feature(f"feature {number}", feature)


def _of_feature(where: str, feature: Any) -> PoiEntry:
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        raise _invalid(where, "it is no Feature")
    geometry, properties = feature.get("geometry"), feature.get("properties")
    if not isinstance(geometry, dict) or geometry.get("type") != "Point":
        raise _invalid(where, "its geometry is no Point")
    if not isinstance(properties, dict):
        raise _invalid(where, "it has no properties")
    place = geometry.get("coordinates")
    if not isinstance(place, list) or len(place) not in (2, 3):
        raise _invalid(where, "its coordinates are not [x, y] or [x, y, z]")
    x, y, z = (*place, 0.0)[:3]
    created_at = properties.get("created_at")
    return PoiEntry(
        where=where,
        label=_label(where, properties.get("label")),
        x=_number(where, "x", x),
        y=_number(where, "y", y),
        z=_number(where, "z", z),
        id=_uuid(where, "id", feature.get("id")),
        map_id=_uuid(where, "map_id", properties.get("map_id")),
        has_map_id="map_id" in properties,
        created_at=None if created_at is None else _number(where, "created_at", created_at),
    )


def _label(where: str, label: object) -> str:
    try:
        return check_label(label)
    except InvalidLabel as error:
        raise _invalid(where, error.message.rstrip(".")) from error


def _uuid(where: str, name: str, value: object) -> str | None:
    """Return an id as rhino writes ids, None for none: whatever else it might be never reaches the database."""
    if value is None:
        return None
    try:
        return str(uuid.UUID(value))  # type: ignore[arg-type]  # anything else raises
    except (ValueError, AttributeError, TypeError) as error:
        raise _invalid(where, f"{name} is no UUID: {str(value)[:40]!r}") from error


def _parsed(where: str, name: str, text: str) -> float:
    try:
        return _number(where, name, float(text))
    except ValueError as error:
        raise _invalid(where, f"{name} is no number: {text[:40]!r}") from error


def _number(where: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _invalid(where, f"{name} is no number: {str(value)[:40]!r}")
    try:
        number = float(value)
    except OverflowError:  # an int beyond every float
        number = math.inf
    if not math.isfinite(number):
        raise _invalid(where, f"{name} is not finite")
    return number


def _looks_like_formula(text: str) -> bool:
    """Return whether a spreadsheet might run a cell with this text, or take its first character off."""
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])[:1]
    return first != "" and first in "=+-@'"


def _invalid(where: str, what: str) -> PoiFileInvalid:
    return PoiFileInvalid(f"{where[0].upper()}{where[1:]}: {what}.", _HINT)
