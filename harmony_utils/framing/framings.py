"""Ways of asking the same questions, by name."""

from __future__ import annotations

from typing import Any

from harmony_utils.errors import InputError

FRAMINGS: dict[str, dict[str, Any]] = {
    "cloze": {},
    "cloze-short": {"wording": "short"},
    "cloze-instruction": {"wording": "instruction"},
    "letter": {"format": "letter"},
    "letter-short": {"format": "letter", "wording": "short"},
    "letter-instruction": {"format": "letter", "wording": "instruction"},
    "letter-reversed": {"format": "letter", "option_order": "reversed"},
    "letter-shuffled": {"format": "letter", "option_order": "shuffled"},
    "letter-numbers": {"format": "letter", "option_symbols": "numbers"},
}
"""Name -> settings of the predictions. All are plausible: none is meant to confuse a model."""

BASELINE = "cloze"
"""What the others are compared with unless another is named."""


def framing_settings(name: str) -> dict[str, Any]:
    """Return the settings of a framing.

    Parameters
    ----------
    name : str
        One of :data:`FRAMINGS`.

    Returns
    -------
    dict
        Fields of the section *predictions* that differ from their defaults.

    Raises
    ------
    InputError
        For an unknown name, with the known ones.

    Examples
    --------
    >>> framing_settings("letter-reversed")
    {'format': 'letter', 'option_order': 'reversed'}
    """
    if name not in FRAMINGS:
        raise InputError(f"framing {name!r}: choose {', '.join(FRAMINGS)}")
    return dict(FRAMINGS[name])
