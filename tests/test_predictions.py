"""The canonical table: validation, normalisation, ties, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harmony_utils.errors import InputError
from harmony_utils.predictions import Predictions, choose


def table(**changes) -> pd.DataFrame:
    columns = {
        "key": ["k0", "k1"],
        "native_id": ["a", "b"],
        "subject": ["x", None],
        "n_options": [2, 3],
        "gold": [[1], [0, 2]],
        "loglik": [[-4.0, -6.0], [-1.0, -5.0, -1.0]],
        "characters": [[1, 3], [1, 1, 1]],
        "bytes": [[1, 6], [1, 1, 1]],
        "tokens": [[1, 2], [1, None, 1]],
        "prediction": [0, 0],
        "prediction_source": "argmax",
        "correct": [0.0, 1.0],
        "flags": [[], ["tie"]],
    }
    return pd.DataFrame({**columns, **changes})


META = {"model": {"name": "m"}, "benchmark": "b", "normalisation": "sum"}


def test_normalisation_can_change_the_answer():
    predictions = Predictions(table(), META)
    assert predictions.accuracy() == 0.5
    np.testing.assert_allclose(predictions.scores("char")[0, :2], [-4, -2])
    assert predictions.correct_by("char").tolist() == [1, 1]
    np.testing.assert_allclose(predictions.scores("byte")[0, :2], [-4, -1])
    assert np.isnan(predictions.scores()[0, 2])
    with pytest.raises(InputError, match="choose sum, char"):
        predictions.scores("words")


def test_ties_go_to_the_first_and_are_told():
    chosen, tied = choose(np.array([[-1, -1, np.nan], [-3, -2, -2], [np.nan] * 3]))
    assert chosen.tolist() == [0, 1, -1]
    assert tied.tolist()[:2] == [True, True]


def test_margins_are_best_minus_second():
    assert Predictions(table(), META).margins().tolist() == [2, 0]


def test_a_table_survives_its_file(tmp_path):
    path = Predictions(table(), META).save(tmp_path / "p.parquet")
    again = Predictions.load(path)
    assert again.meta == META
    assert again.table["native_id"].tolist() == ["a", "b"]
    assert again.table["subject"].isna().tolist() == [False, True]
    np.testing.assert_array_equal(again.table["loglik"][1], [-1, -5, -1])
    second = Predictions.load(path).save(tmp_path / "q.parquet")
    assert second.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": ["k0", "k0"]}, "row 2 repeats key"),
        ({"gold": [[2], [0]]}, r"row 1 has gold \[2\]"),
        ({"gold": [[1], []]}, "row 2 has gold"),
        ({"loglik": [[-1.0], [-1.0, -2.0, -3.0]]}, "row 1 has 1 scores"),
        ({"loglik": [[-1.0, -np.inf], [-1.0, -2.0, -3.0]]}, "infinite"),
        ({"correct": [0.5, 1.5]}, "row 2 has correct 1.5"),
    ],
)
def test_broken_tables_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Predictions(table(**changes), META)


def test_files_that_are_no_tables(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text("no")
    with pytest.raises(InputError, match="not a readable Parquet"):
        Predictions.load(path)
    table().drop(columns=["gold", "tokens"]).to_parquet(path)
    with pytest.raises(InputError, match="no column 'gold'"):
        Predictions.load(path)
