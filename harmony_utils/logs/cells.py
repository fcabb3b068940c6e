"""Values that a tool wrote as the text of a Python object."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

_NAMES = {"nan": math.nan, "inf": math.inf, "NaN": math.nan, "Infinity": math.inf}
_WRAPPERS = re.compile(r"array|tensor|(float|int|uint)\d*|bool_?|str_?")
_NUMBERS = re.compile(r"[\[\](),\s]*(?:(?:[-+]?(?:\d[\d.eE+-]*|nan|inf))[\[\](),\s]*)+")


def literal(text: str) -> Any:
    """Read the text of a Python object without running anything.

    Besides what :func:`ast.literal_eval` reads: ``nan`` and ``inf``, NumPy's scalars and arrays.

    Raises
    ------
    ValueError
        If the text is something else.

    Examples
    --------
    >>> literal("[(np.float64(-1.5), False), (array([2., 3.], dtype=float32), None)]")
    [(-1.5, False), ([2.0, 3.0], None)]
    >>> literal("[-1.5 -0.25]")
    [-1.5, -0.25]
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        if text.lstrip().startswith("[") and "," not in text and _NUMBERS.fullmatch(text):
            return [float(number) for number in text.strip("[] \n").split()]
        raise ValueError(f"not the text of a value: {text[:60]!r}") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part) for part in parts)
        case ast.Set(elts=parts):
            return [_value(part) for part in parts]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {
                str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True)
            }
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_value(operand)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.Attribute(attr=name) if name in _NAMES:
            return _NAMES[name]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            if _WRAPPERS.fullmatch(name):
                return _value(first)
    raise ValueError(type(node).__name__)


def cell(value: Any) -> Any:
    """Return a value, read from its text if it is one that starts like a list, dict or number.

    Examples
    --------
    >>> cell("{'acc': 1}"), cell("plain words"), cell("[1, 2"), cell(3)
    ({'acc': 1}, 'plain words', '[1, 2', 3)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text or not (text[0] in "[({-" or text[0].isdigit() or text in ("None", "nan")):
        return value
    try:
        return literal(text)
    except ValueError:
        return value


def real(value: Any) -> float | None:
    """Return a number that may be NaN or infinite, None for what is no number."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def dig(value: Any, *names: str) -> Any:
    """Return what stands under these names, None where one is absent or no mapping.

    Examples
    --------
    >>> dig({"a": {"b": 1}}, "a", "b"), dig({"a": None}, "a", "b")
    (1, None)
    """
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
