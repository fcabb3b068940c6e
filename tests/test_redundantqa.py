"""RedundantQA: whole groups, true keys, fair options, and look-alikes that look alike."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from harmony_utils import redundantqa
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item
from harmony_utils.sources import load_benchmark
from harmony_utils.sources.load import _load

N_GROUPS = 32
WHOLE = {"reference": 1, "paraphrase": 2, "lookalike": 2}


@pytest.fixture(scope="module")
def benchmark():
    return load_benchmark("redundantqa")


@pytest.fixture(scope="module")
def table(benchmark):
    table = redundantqa.groups(benchmark)
    table["question"] = [item.question for item in benchmark.items]
    table["answer"] = [item.options[item.gold] for item in benchmark.items]
    table["options"] = [frozenset(item.options) for item in benchmark.items]
    return table


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def overlap(one: str, other: str) -> float:
    """Share of the words of two questions that both have (Jaccard index)."""
    return len(words(one) & words(other)) / len(words(one) | words(other))


def longest(item: Item) -> float:
    """Chance that one of the longest options, taken at random, is the correct one."""
    lengths = [len(option) for option in item.options]
    return (lengths[item.gold] == max(lengths)) / lengths.count(max(lengths))


def overlaps(table, role: str) -> list[float]:
    """Overlap of every question of a role with the reference of its group."""
    references = table[table.role == "reference"].set_index("group").question
    rows = table[table.role == role]
    return [overlap(references[row.group], row.question) for row in rows.itertuples()]


def test_counts(benchmark, table):
    assert len(benchmark) == 4 * N_GROUPS * 5
    assert set(benchmark.subjects) == set(redundantqa.DOMAINS)
    assert dict(table.groupby("domain").group.nunique()) == dict.fromkeys(
        redundantqa.DOMAINS, N_GROUPS
    )


def test_every_group_is_complete(table):
    for _, rows in table.groupby("group"):
        assert dict(Counter(rows.role)) == WHOLE
        assert rows.domain.nunique() == 1


def test_ids_say_group_and_role(table):
    assert table.id[:5].tolist() == [
        "biology-01-reference",
        "biology-01-paraphrase-1",
        "biology-01-paraphrase-2",
        "biology-01-lookalike-1",
        "biology-01-lookalike-2",
    ]
    assert "pop_culture-32-lookalike-2" in set(table.id)


def test_answers_bind_paraphrases_and_part_lookalikes(table):
    for _, rows in table.groupby("group"):
        by_role = rows.set_index("role")
        reference = by_role.loc["reference"]
        assert set(by_role.loc["paraphrase"].answer) == {reference.answer}
        assert set(by_role.loc["paraphrase"].options) == {reference.options}
        assert by_role.loc["lookalike"].answer.nunique() == 2
        assert reference.answer not in set(by_role.loc["lookalike"].answer)


def test_no_question_stands_twice(benchmark):
    asked = Counter(tuple(re.findall(r"\w+", item.question)) for item in benchmark.items)
    assert max(asked.values()) == 1  # capitals count: TT, Tt and tt are different genotypes


def test_four_different_options(benchmark):
    for item in benchmark.items:
        assert len({option.casefold() for option in item.options}) == 4, item.id
        assert item.question[-1] in "?.", item.id


def test_lookalikes_have_more_words_of_the_reference_than_paraphrases(table):
    for domain in redundantqa.DOMAINS:
        rows = table[table.domain == domain]
        assert np.mean(overlaps(rows, "lookalike")) > np.mean(overlaps(rows, "paraphrase")) + 0.3
    for _, rows in table.groupby("group"):
        assert min(overlaps(rows, "lookalike")) > max(overlaps(rows, "paraphrase"))


def test_correct_options_are_spread_over_the_places(benchmark, table):
    golds = np.array([item.gold for item in benchmark.items])
    assert np.all(np.abs(np.bincount(golds, minlength=4) / len(golds) - 0.25) < 0.05)
    for domain in redundantqa.DOMAINS:
        shares = np.bincount(golds[table.domain == domain], minlength=4) / (5 * N_GROUPS)
        assert shares.min() > 0.15


def test_picking_the_longest_option_gains_little(benchmark):
    assert 0.2 < np.mean([longest(item) for item in benchmark.items]) < 0.35


def test_second_pass_covers_every_question_as_it_stands(benchmark):
    text = (files(redundantqa) / "second_pass.csv").read_text(encoding="utf-8")
    checked = {row["id"]: (row["key"], row["answer"]) for row in csv.DictReader(text.splitlines())}
    assert checked == {
        item.id: (key, item.options[item.gold])
        for item, key in zip(benchmark.items, benchmark.keys(), strict=True)
    }, "a question changed: answer it again without sight of the key and record that"


def test_source_files_hold_the_correct_option_first(benchmark):
    items = {item.id: item for item in benchmark.items}
    for row in redundantqa.read_rows():
        item = items[row["id"]]
        assert item.options[item.gold] == row["options"][0]
        assert set(item.options) == set(row["options"])


def test_every_line_of_the_files_is_known(benchmark):
    folder = files(redundantqa)
    lines = [
        json.loads(line)
        for domain in redundantqa.DOMAINS
        for line in (folder / f"{domain.replace(' ', '_')}.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(lines) == len(benchmark)
    assert all(("options" in line) == (line["role"] != "paraphrase") for line in lines)


def test_loading_is_deterministic(benchmark):
    assert _load("redundantqa").fingerprint() == benchmark.fingerprint()


def test_groups_of_a_part(benchmark):
    part = load_benchmark("redundantqa:pop culture", limit=7, random_state=1)
    found = redundantqa.groups(part)
    assert found.id.tolist() == [item.id for item in part.items]
    assert set(found.domain) == {"pop culture"}


def test_other_benchmarks_have_no_groups():
    other = Benchmark("quiz", (Item("q1", "2 + 2 =", ("3", "4"), 1),))
    with pytest.raises(InputError, match="item 'q1' is not from RedundantQA"):
        redundantqa.groups(other)


def test_data_card_has_the_numbers_of_the_data(benchmark, table):
    card = (Path(__file__).parent.parent / "book" / "redundantqa.md").read_text(encoding="utf-8")
    items = np.array(benchmark.items, dtype=object)
    is_paraphrase = table.role == "paraphrase"
    parts = [table.domain == domain for domain in redundantqa.DOMAINS] + [table.domain != ""]

    def two(value: float) -> str:
        return f"{value:.2f}".removeprefix("0")

    def length(keep) -> str:
        return f"{np.median([len(item.question.split()) for item in items[keep]]):g}"

    for label, measure in {
        "word overlap with the reference, paraphrases": lambda part: two(
            np.mean(overlaps(table[part], "paraphrase"))
        ),
        "word overlap with the reference, look-alikes": lambda part: two(
            np.mean(overlaps(table[part], "lookalike"))
        ),
        "right by always taking the longest option": lambda part: two(
            np.mean([longest(item) for item in items[part]])
        ),
        "words in a question, median, references and look-alikes": lambda part: length(
            part & ~is_paraphrase
        ),
        "words in a question, median, paraphrases": lambda part: length(part & is_paraphrase),
    }.items():
        assert f"| {label} | {' | '.join(map(measure, parts))} |" in card
    answers, options, lookalikes = 0, 0, table[table.role == "lookalike"]
    references = table[table.role == "reference"].set_index("group")
    for row in lookalikes.itertuples():
        answers += references.answer[row.group] in row.options
        options += references.options[row.group] == row.options
    assert f"in {options} of {len(lookalikes)} its options are those of the reference" in card
    assert f"answer is among the wrong ones in {answers}." in card
    places = np.bincount([item.gold for item in benchmark.items])
    assert "four places {}, {}, {} and {} times".format(*places) in card
    most = two(max(overlaps(table, "paraphrase")))
    least = two(min(overlaps(table, "lookalike")))
    assert f"of a paraphrase is {most}, the smallest of a look-alike {least}," in card
