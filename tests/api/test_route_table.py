import pytest

from serve_app.route_table import OTHER, RouteTable

TABLE = RouteTable(
    {
        "/": {"GET"},
        "/api/maps": {"GET", "POST"},
        "/api/maps/{map_id}": {"PATCH"},
        "/api/maps/import": {"POST"},
        "/api/robots/{robot}/maps": {"GET"},
    }
)


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/", "/"),
        ("/api/maps", "/api/maps"),
        ("/api/maps/7f", "/api/maps/{map_id}"),
        ("/api/maps/import", "/api/maps/import"),
        ("/api/robots/go2/maps", "/api/robots/{robot}/maps"),
        ("/api/robots//maps", OTHER),
        ("/api/maps/", OTHER),
        ("/api", OTHER),
        ("/etc/passwd", OTHER),
    ],
)
def test_a_path_belongs_to_the_most_literal_template(path: str, template: str) -> None:
    assert TABLE.template(path) == template


def test_methods_are_those_of_the_route() -> None:
    assert TABLE.methods("/api/maps") == {"GET", "POST"}
    assert TABLE.methods("/api/maps/import") == {"POST"}
    assert TABLE.methods("/nothing") == frozenset()
