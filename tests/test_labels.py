"""Labels: a missing one is refused wherever it comes in, whatever it looks like."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harmony_utils.comparison import compare_partitions
from harmony_utils.errors import InputError
from harmony_utils.labels import canonical_labels, check_groups, group_numbers, refuse_missing
from harmony_utils.metric import check_items
from harmony_utils.partition import partition_from_labels

MISSING = {
    "None": ["a", None, "b"],
    "NaN among texts": ["a", float("nan"), "b"],
    "pandas' NA": pd.array(["a", pd.NA, "b"], dtype="string"),
    "a column": pd.Series(["a", None, "b"]),
    "NaT": [pd.Timestamp(0), pd.NaT, pd.Timestamp(1)],
    "numbers": np.array([0.0, np.nan, 1.0]),
}


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
def test_no_missing_label_passes_for_a_subdomain(labels):
    with pytest.raises(InputError, match="labels, row 1: is missing"):
        check_items([1, 0, 1], labels)
    with pytest.raises(InputError, match="labels, row 1: is missing"):
        partition_from_labels(labels)
    with pytest.raises(InputError, match="groups, row 1: is missing"):
        check_groups(labels, 3)


def test_a_partition_with_a_missing_label_is_named():
    partitions = {"whole": [0, 0, 1, 1] * 10, "holed": ["x", None] * 20}
    with pytest.raises(InputError, match=r"partition 'holed': labels, row 1: is missing \(20 of"):
        compare_partitions([0, 1] * 20, partitions, "whole")


def test_what_cannot_be_missing_is_not_looked_at():
    refuse_missing(np.array(["nan", "None"]), "labels", "")
    refuse_missing([("a", 1), (), 0, False, ""], "labels", "")


def test_groups_are_those_of_the_passages():
    names = ["p", None, "p", "q", None]
    assert group_numbers(names).tolist() == [0, 1, 0, 2, 3]
    assert group_numbers([None, None]) is None
    assert canonical_labels([]).tolist() == []
