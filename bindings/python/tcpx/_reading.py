"""Reading of JSON into frozen dataclasses, by the types of their members."""

from __future__ import annotations

import functools
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


@functools.cache
def _members(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def read(kind: Any, value: Any) -> Any:
    """Returns a value that `json.loads` has returned as `kind`.

    That is a dataclass of such members, a tuple of them, one of them or None, or what JSON itself
    has. Members that a dataclass does not have are left out; one that is missing is a `KeyError`.
    """
    if value is None:
        return None
    origin = get_origin(kind)
    if origin is tuple:
        return tuple(read(get_args(kind)[0], item) for item in value)
    if origin is UnionType:
        return read(get_args(kind)[0], value)
    if is_dataclass(kind) and isinstance(kind, type):
        return kind(**{name: read(member, value[name]) for name, member in _members(kind).items()})
    return value
