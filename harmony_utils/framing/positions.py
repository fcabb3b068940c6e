"""Does the place of an option in the list decide?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harmony_utils.errors import InputError
from harmony_utils.metric import wilson_interval


def choices_by_position(
    table: pd.DataFrame, orders: Sequence[Sequence[int]] | None = None
) -> pd.DataFrame:
    """Count how often each place of the list is chosen, holds the right answer, and is right.

    Parameters
    ----------
    table : DataFrame
        ``table`` of :class:`~harmony_utils.predictions.Predictions`, or any with ``n_options``,
        ``gold`` (list of right options) and ``prediction``. Questions without a prediction or a
        right option are left out.
    orders : sequence of sequence of int, length n_items, optional
        Which option stood first in the list, which second …, as
        :func:`harmony_utils.scoring.prompts.list_order` gives it; the options' own order if not
        given.

    Returns
    -------
    DataFrame
        A row for each place, from the top: ``position`` (from 1), ``offered`` (questions with so
        many options), ``chosen`` (share of these where it was chosen) with ``chosen_low`` and
        ``chosen_high`` (Wilson, 95 %), ``holds_right`` (share where it holds the right answer),
        ``accuracy`` (share of right answers where it does; NaN where it never does).

    Raises
    ------
    InputError
        For written answers, orders of another number, or no question that is left.

    Notes
    -----
    A model without any preference chooses a place as often as it holds the right answer only if it
    is always right; otherwise compare with other places. Shuffled lists take out what the
    benchmark itself puts first.

    Examples
    --------
    >>> from harmony_utils.respondents import respond
    >>> from harmony_utils.sources import load_benchmark
    >>> answers = respond("respondent:first", load_benchmark("copa", limit=10))
    >>> choices_by_position(answers.table)[["position", "chosen"]].values.tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    if "generated" in table.columns:
        raise InputError("choices_by_position: written answers have no list of options")
    if orders is not None and len(orders) != len(table):
        raise InputError(f"orders: {len(orders)} for {len(table)} questions")
    rows = []
    for row, (n, gold, chosen) in enumerate(
        zip(table["n_options"], table["gold"], table["prediction"], strict=True)
    ):
        if gold is None or pd.isna(chosen) or chosen < 0:
            continue
        order = range(n) if orders is None else orders[row]
        rows += [
            (place, option == chosen, option in set(gold))
            for place, option in enumerate(order, start=1)
        ]
    if not rows:
        raise InputError("choices_by_position: no question has a prediction and a right option")
    places = pd.DataFrame(rows, columns=["position", "chosen", "right"])
    found = places.groupby("position").agg(
        offered=("chosen", "size"), chosen=("chosen", "mean"), holds_right=("right", "mean")
    )
    low, high = wilson_interval(found["chosen"].to_numpy(), found["offered"].to_numpy())
    accuracy = places[places["right"]].groupby("position")["chosen"].mean()
    found = found.assign(chosen_low=low, chosen_high=high, accuracy=accuracy.reindex(found.index))
    columns = ["offered", "chosen", "chosen_low", "chosen_high", "holds_right", "accuracy"]
    return found[columns].reset_index()
