"""Which route a path belongs to, without asking the framework: for the Allow header, the access log and metrics."""

from collections.abc import Iterable, Mapping

OTHER = "(other)"  # every path that is no route's, so that a label takes few values


class RouteTable:
    """The templates of all routes, such as /api/pois/{poi_id}, with their methods."""

    def __init__(self, methods: Mapping[str, Iterable[str]]) -> None:
        """Take templates to upper-case methods."""
        self._methods = {template: frozenset(names) for template, names in methods.items()}
        self._by_length: dict[int, list[tuple[str, list[str]]]] = {}
        # Among those that fit, the one with its first variable farthest to the right is meant.
        for template in sorted(self._methods, key=_first_variable, reverse=True):
            parts = template.split("/")
            self._by_length.setdefault(len(parts), []).append((template, parts))

    def template(self, path: str) -> str:
        """Return the template that a path fits, OTHER for none."""
        parts = path.split("/")
        for template, wanted in self._by_length.get(len(parts), ()):
            if all(_fits(want, part) for want, part in zip(wanted, parts, strict=True)):
                return template
        return OTHER

    def methods(self, path: str) -> frozenset[str]:
        """Return the methods of the route at a path, none for an unknown one."""
        return self._methods.get(self.template(path), frozenset())


def _fits(wanted: str, part: str) -> bool:
    return bool(part) if wanted.startswith("{") else wanted == part


def _first_variable(template: str) -> list[bool]:
    return [not part.startswith("{") for part in template.split("/")]
