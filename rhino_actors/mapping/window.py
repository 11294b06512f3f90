"""How the mapping code says where a grid changed: the windows of `messages.window`."""

from rhino_actors.messages.window import EMPTY_WINDOW, CellWindow

__all__ = ["EMPTY_WINDOW", "CellWindow"]
