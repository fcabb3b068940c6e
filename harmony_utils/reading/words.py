"""Numbers and phrases as sentences write them."""

from __future__ import annotations

LEVEL = 0.05
"""A p-value up to this, adjusted for the number of tests, is called significant."""


def p_text(p_value: float) -> str:
    """Write a p-value with three digits; a very small one with one.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.0004998)
    ('0.031', '0.0005')
    """
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign, a true minus; one that rounds to nothing has none.

    Examples
    --------
    >>> signed(-0.0214), signed(0.5, 2), signed(-0.00001)
    ('−0.021', '+0.50', '0.000')
    """
    rounded = round(value, digits) + 0.0
    text = f"{abs(rounded):.{digits}f}"
    return text if rounded == 0 else ("−" if rounded < 0 else "+") + text


def capital(text: str) -> str:
    """Begin a sentence with a capital."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural where it is not one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
