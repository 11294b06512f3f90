"""The documents say what the code does."""

import asyncio
import importlib.util
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
REFRESH = "run: python docs/generate_configuration.py"


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return _script("generate_configuration")


def _script(name: str) -> ModuleType:
    script = ROOT / "docs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_mcp_document_are_up_to_date() -> None:
    script = ROOT / "docs" / "generate_mcp.py"
    spec = importlib.util.spec_from_file_location("generate_mcp", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.DOCUMENT.read_text(encoding="utf-8")
    assert text == asyncio.run(module.document(text)), "run: python docs/generate_mcp.py"


def test_commands_of_places_in_the_document_exist() -> None:
    from typer.main import get_command

    from rhino_actors.cli import app

    pois = get_command(app).commands["poi"].commands  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    assert set(re.findall(r"rhino poi ([a-z]+)", text)) == set(pois)


def test_configuration_document_is_up_to_date(generator: ModuleType) -> None:
    assert generator.DOCUMENT.read_text(encoding="utf-8") == generator.document(), REFRESH


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.name)
def test_configuration_files_have_every_key_with_its_unit(
    generator: ModuleType, path: Path
) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == generator.complete(text), REFRESH


def test_completing_a_file_keeps_its_values_and_its_first_comment(generator: ModuleType) -> None:
    text = generator.complete("# mine\n\ndriver: fake\ngate: {max_vx: 0.4}\n")
    assert text.startswith("# mine\n\ndriver: fake  #")
    assert "\n  max_vx: 0.4  # [m/s] " in text
    assert "\n  max_vy: 0.5  # [m/s] " in text
    assert generator.complete(text) == text


def test_every_option_is_documented_with_a_meaning(generator: ModuleType) -> None:
    for kind in generator.sections().values():
        for spec in generator._options(kind):
            assert spec.metadata["doc"].strip(), f"{kind.__name__}.{spec.name}"


def test_documents_of_the_api_are_up_to_date() -> None:
    api = _script("generate_api")
    refresh = "run: python docs/generate_api.py"
    assert api.ERRORS.read_text(encoding="utf-8") == api.errors_document(), refresh
    text = api.API.read_text(encoding="utf-8")
    assert text == api.with_routes(text), refresh


def test_every_code_of_an_error_is_in_the_table_once() -> None:
    rows = re.findall(r"^\| `([A-Z_0-9]+)` \| (\d+|command line) \|", _read("docs/errors.md"), re.M)
    codes = dict(rows)
    assert len(rows) == len(codes) > 60
    assert codes["CONTROL_HELD"] == "409" and codes["UNAUTHORIZED"] == "401"
    assert codes["PORT_TAKEN"] == "command line" and codes["INTERNAL"] == "500"
    classes = "".join(_read(path) for path in ("rhino_actors/errors.py", "serve_app/streams.py"))
    for code in re.findall(r'^    code = "([A-Z_0-9]+)"', classes, re.M):
        assert code in codes


DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "cluster/README.md",
    "docs/api.md",
    "docs/maps.md",
    "docs/mcp.md",
    "docs/real-robot.md",
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_in_the_documents_exist(name: str) -> None:
    from typer.main import get_command

    from rhino_actors.cli import app

    text = (ROOT / name).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z][a-z-]*)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for word in re.findall(r"\.venv/bin/rhino ([a-z]+)", text):
        assert word in commands, f"rhino {word}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_in_the_documents_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / name).parent / target).exists(), target


def test_routes_in_the_readme_exist() -> None:
    from serve_app.app import create_api
    from tests.api.world import World

    paths = create_api(World().handles()).openapi()["paths"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"localhost:8000(/api/[a-z/]+)", text):
        assert path in paths, path


CURL = re.compile(r"^curl .*?localhost:8000.*$", re.MULTILINE)


def _examples() -> list[tuple[str, str, str | None]]:
    """Every curl line of the documents: method, path with query, body."""
    found = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = document.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in CURL.findall(text):
            words = shlex.split(line, comments=True)
            method = words[words.index("-X") + 1] if "-X" in words else "GET"
            body = words[words.index("-d") + 1] if "-d" in words else None
            (url,) = [word for word in words if word.startswith("localhost:8000")]
            is_json = not {"-F", "--data-binary"} & set(words)
            found.append((method, url.removeprefix("localhost:8000"), body if is_json else "file"))
    return found


def test_every_route_has_an_example_that_works() -> None:
    from fastapi.testclient import TestClient

    from serve_app.app import create_api
    from tests.api.test_missions import RECORD
    from tests.api.world import World

    world = World()
    app = create_api(world.handles())
    missing = {
        (method.upper(), path)
        for path, item in app.openapi()["paths"].items()
        if not path.startswith("/api/robots/{robot}/")
        for method in item
    }
    with TestClient(app, base_url="http://localhost:8000") as client:
        for method, url, body in _examples():
            route = app.state.routes.template(url.partition("?")[0])
            missing.discard((method, route))
            if body == "file" or route.endswith(("/events", "/stream")):
                assert method in app.state.routes.methods(url.partition("?")[0]), url
                continue
            world.reset()
            world.platform.add_frame()
            world.pois.missions["ID"] = (replace(RECORD, id="ID"), b"a picture")
            poi = client.post("/api/pois", json={"label": "x", "x": 0, "y": 0}).json()["id"]
            saved = client.post("/api/maps", json={"name": "first"}).json()["id"]
            there = url.replace("pois/ID", f"pois/{poi}").replace("maps/ID", f"maps/{saved}")
            if "/map/tiles" in there:
                there = there.partition("?")[0] + f"?since={world.mapper.current.epoch}-1"
            answer = client.request(method, there, content=body and body.replace("POI-ID", poi))
            # 409: no mission runs that could be stopped; 503: no metrics without Ray.
            fine = answer.status_code < 400 or answer.status_code == 409 or route == "/metrics"
            assert fine, f"{method} {url}: {answer.text}"
    assert not missing, "docs/api.md lacks an example of these"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_benchmarks_that_the_documents_name_can_be_run_as_they_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "python benchmarks/" not in text, "run as files they do not find each other"
    for name in re.findall(r"python -m benchmarks\.([a-z0-9_]+)", text):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name
