"""Checks of questions that nobody has checked before: a person's own file or dataset."""

from __future__ import annotations

from collections.abc import Sequence

from harmony_utils.errors import InputError
from harmony_utils.items import Item
from harmony_utils.sources.gold import MIN_ROWS_FOR_PATTERN


def check_items(items: Sequence[Item], places: Sequence[str], name: str) -> None:
    """Refuse items that cannot be scored fairly, at the first that is wrong.

    Parameters
    ----------
    items : sequence of Item
        The items as read.
    places : sequence of str
        What to call each one, e.g. ``"quiz.csv, row 3"``.
    name : str
        What to call all of them, e.g. ``"quiz.csv"``.

    Raises
    ------
    InputError
        For an empty question or option, two options with the same text, an id used before, or a
        correct option that always stands at the same place: with ten items or more that is a
        mistake of the file, and a model that prefers a place would seem to know the answers.
    """
    seen: dict[str, str] = {}
    for item, place in zip(items, places, strict=True):
        _check_texts(item, place)
        if item.id in seen:
            raise InputError(
                f"{place}: id {item.id!r} was used before in {seen[item.id]}: make ids unique"
            )
        seen[item.id] = place
    if items[0].answers:
        return
    if len(items) >= MIN_ROWS_FOR_PATTERN and len({item.gold for item in items}) == 1:
        raise InputError(
            f"{name}: the correct option is number {items[0].gold + 1} in all {len(items)} "
            "questions: mix the options, or add ?shuffle=yes to have them mixed by their content"
        )


def _check_texts(item: Item, place: str) -> None:
    if not item.id:
        raise InputError(f"{place}: id is empty: give every row an id, or none")
    if not item.question:
        raise InputError(f"{place}: question is empty: write it, or remove the row")
    for number, option in enumerate(item.options, start=1):
        if not option:
            raise InputError(f"{place}: option {number} is empty: write it, or remove the row")
        first = item.options.index(option) + 1
        if first != number:
            raise InputError(
                f"{place}: options {first} and {number} are both {option!r}: make them differ"
            )
