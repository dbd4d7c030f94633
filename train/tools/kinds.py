"""Every kind of tool by its name, which is the name of its state in an `Environment`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from train.tools.base import Tool
from train.tools.board import Board
from train.tools.cad import Cad
from train.tools.calculator import Calculator
from train.tools.calendar import Calendar
from train.tools.files import Files
from train.tools.graph import Graph
from train.tools.search import Search
from train.tools.service import Service
from train.tools.sql import Sql
from train.tools.store import Store

KINDS: Final[Mapping[str, type[Tool]]] = MappingProxyType(
    {
        "board": Board,
        "cad": Cad,
        "calculator": Calculator,
        "calendar": Calendar,
        "files": Files,
        "graph": Graph,
        "search": Search,
        "service": Service,
        "sql": Sql,
        "store": Store,
    }
)
