"""Items and benchmarks: what is refused, what identifies them, and how samples are drawn."""

from dataclasses import replace

import pytest

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, item_keys


def make_item(number: int, **changes) -> Item:
    item = Item(f"q{number}", f"What is {number} + 1?", (str(number), str(number + 1)), 1)
    return replace(item, **changes)


def make_benchmark(n_items: int, **changes) -> Benchmark:
    return Benchmark("sums", tuple(make_item(i) for i in range(n_items)), **changes)


@pytest.mark.parametrize(
    ("options", "gold", "message"),
    [
        (("only",), 0, "at least two options, has 1"),
        (("a", "b"), 2, "gold 2 lies outside the 2 options"),
        (("a", "b"), -1, "gold -1 lies outside the 2 options"),
    ],
)
def test_item_refuses_what_cannot_be_scored(options, gold, message):
    with pytest.raises(InputError, match=message):
        Item("q", "?", options, gold)


def test_benchmark_refuses_to_be_empty():
    with pytest.raises(InputError, match="'sums': has no items"):
        make_benchmark(0)


def test_benchmark_refuses_repeated_ids():
    with pytest.raises(InputError, match="id 'q1' stands more than once"):
        Benchmark("sums", (make_item(1), make_item(2), make_item(1)))


def test_keys_depend_on_content_alone():
    item = make_item(1)
    same = replace(item, id="other", gold=0, subject="arithmetic")
    different = [
        replace(item, question="What is 1 plus 1?"),
        replace(item, options=("2", "1")),
        replace(item, passage="Numbers."),
    ]
    assert item_keys([item]) == item_keys([same])
    assert all(item_keys([item]) != item_keys([other]) for other in different)


def test_keys_of_repeated_content_are_numbered():
    first, second, third = item_keys([make_item(1), make_item(1, id="x"), make_item(1, id="y")])
    assert (second, third) == (f"{first}-1", f"{first}-2")


def test_fingerprint_covers_what_changes_a_prediction():
    benchmark = make_benchmark(3)
    changed = [
        replace(benchmark, items=benchmark.items[::-1]),
        replace(benchmark, prompt_style="continuation"),
        replace(benchmark, examples=(make_item(9),)),
        replace(benchmark, items=(make_item(0, gold=0), *benchmark.items[1:])),
    ]
    prints = {other.fingerprint() for other in [benchmark, *changed]}
    assert len(prints) == 5
    assert replace(benchmark, name="other", licence="MIT").fingerprint() in prints


def test_sample_is_random_but_repeatable_and_keeps_order():
    benchmark = make_benchmark(100)
    ids = [item.id for item in benchmark.items]
    drawn = [item.id for item in benchmark.sample(10, random_state=1).items]
    assert drawn == [item.id for item in benchmark.sample(10, random_state=1).items]
    assert drawn != [item.id for item in benchmark.sample(10, random_state=2).items]
    assert drawn != ids[:10]
    assert drawn == sorted(drawn, key=ids.index)
    assert len(set(drawn)) == 10


@pytest.mark.parametrize("limit", [0, 5, 6])
def test_sample_of_all_is_the_benchmark_itself(limit):
    benchmark = make_benchmark(5)
    assert benchmark.sample(limit) is benchmark


def test_sample_refuses_negative_limits():
    with pytest.raises(InputError, match="limit -1"):
        make_benchmark(5).sample(-1)
