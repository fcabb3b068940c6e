"""Written answers: greedy as `generate` has it, the same in any batch, judged as the field does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item, Prompt
from harmony_utils.predictions import Predictions
from harmony_utils.scoring import load_model, score
from harmony_utils.scoring import scores as scores_module
from harmony_utils.scoring.answers import judge, last_number, token_f1
from harmony_utils.scoring.forward import Forward, average_tokens
from harmony_utils.scoring.generation import (
    Greedy,
    RunningMean,
    end_tokens,
    generate_chunk,
    stop_texts,
)
from harmony_utils.scoring.prompts import build_prompt
from harmony_utils.settings import GenerationSettings, PredictionsSettings

SHORT = GenerationSettings(few_shot=1, max_new_tokens=12)


@pytest.fixture(scope="module")
def model(tiny_model):
    return load_model(str(tiny_model), device="cpu")


@pytest.fixture(scope="module")
def benchmark():
    asked = {
        "What warms the earth?": ("the sun", "Sun"),
        "Who ruled long ago, before the sea and the river of sand?": ("kings",),
        "Iron": ("rusts",),
        "Two plus three is": ("five", "5"),
        "What do plants make from light, water and air?": ("sugar",),
    }
    items = [Item(f"q{i}", q, answers=a) for i, (q, a) in enumerate(asked.items())]
    examples = (Item("shown", "What turns?", answers=("the moon",)),)
    return Benchmark("toy", tuple(items), examples=examples)


def prompt_ids(model, benchmark, settings) -> list[list[int]]:
    return [
        model.tokenizer(build_prompt(benchmark, item, settings).prefix)["input_ids"]
        for item in benchmark.items
    ]


def naive(model, ids: list[int], longest: int) -> tuple[list[int], torch.Tensor]:
    """The definition: the whole text again for every token, no batch, padding or cache."""
    ids, rows, start = list(ids), [], len(ids)
    for _ in range(longest):
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([ids])).logits[0, -1].float()
        rows.append(torch.log_softmax(logits, dim=-1))
        ids.append(int(logits.argmax()))
        if ids[-1] in end_tokens(model) or "\n" in model.tokenizer.decode(ids[start:]):
            return ids[start:], torch.stack(rows[:-1] or rows)
    return ids[start:], torch.stack(rows)


def test_a_question_may_bring_its_own_prompt():
    item = Item("q", "Who?", answers=("Ada",), prompt=Prompt("Who was it? Say:", ()))
    quiz = Benchmark("quiz", (item, Item("r", "What?", answers=("it",))))
    assert build_prompt(quiz, item, GenerationSettings(few_shot=0)).prefix == "Who was it? Say:"
    with pytest.raises(InputError, match=r"generation\.few_shot=1 cannot change"):
        build_prompt(quiz, item, GenerationSettings(few_shot=1))


def test_prompts_show_solved_examples_and_end_before_the_answer(benchmark):
    prompt = build_prompt(benchmark, benchmark.items[2], SHORT)
    assert prompt.prefix == "Question: What turns?\nAnswer: the moon\n\nQuestion: Iron\nAnswer:"
    assert prompt.continuations == ()
    with pytest.raises(InputError, match=r"lower generation\.few_shot"):
        build_prompt(benchmark, benchmark.items[0], GenerationSettings(few_shot=2))


@pytest.mark.parametrize("share", [True, False])
def test_tokens_and_averages_are_those_of_the_definition(model, benchmark, share, monkeypatch):
    prompts = prompt_ids(model, benchmark, SHORT)
    greedy = Greedy(model, SHORT)
    monkeypatch.setattr(greedy, "_forward", Forward(model, share_prefix=share))
    for ids, found in zip(prompts, greedy(prompts), strict=True):
        expected, rows = naive(model, ids, 12)
        assert list(found.ids) == expected
        averaged = average_tokens(rows, "gold-mean")
        np.testing.assert_allclose(found.averaged.exp(), averaged.exp(), atol=1e-5)
        assert found.n_tokens == len(rows) or not found.text


def test_tokens_are_those_of_generate(model, benchmark):
    prompts = prompt_ids(model, benchmark, SHORT)
    for ids, found in zip(prompts, Greedy(model, SHORT)(prompts), strict=True):
        theirs = model.model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
        )[0, len(ids) :].tolist()
        assert theirs[: len(found.ids)] == list(found.ids)
        if found.cut:
            assert len(found.ids) == len(theirs) == 12


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"batch_size": 2},
        {"batch_size": 3, "padding_side": "right"},
        {"chunk_size": 2},
    ],
)
def test_batches_padding_and_chunks_change_nothing(model, benchmark, options):
    reference = score(model, benchmark, SHORT)
    settings = SHORT.model_copy(update=options)
    other = score(model, benchmark, settings)
    columns = ["generated", "n_generated", "f1", "correct"]
    assert other.predictions.table[columns].equals(reference.predictions.table[columns])
    np.testing.assert_allclose(
        np.exp(reference.distributions.astype(float)),
        np.exp(other.distributions.astype(float)),
        atol=1e-3,
    )
    assert settings.identity() == SHORT.identity()


@pytest.mark.parametrize(
    ("variant", "same"),
    [
        ("generated-mean", "gold-mean"),
        ("generated-geometric", "gold-geometric"),
        ("prompt-end", "prompt-end"),
    ],
)
def test_running_means_are_means_of_all_rows(variant, same):
    rows = torch.log_softmax(torch.randn(7, 50, generator=torch.Generator().manual_seed(0)), -1)
    mean = RunningMean(variant)
    for row in rows:
        mean.add(row)
    torch.testing.assert_close(mean.value(), average_tokens(rows, same))


def write(model, text: str, settings: GenerationSettings, monkeypatch, kind="text"):
    """Let the model write a text: its most probable tokens are those of the text."""
    tokens = model.tokenizer(text)["input_ids"]
    greedy, places = Greedy(model, settings, kind=kind), iter(range(99))

    def run(*args, **kwargs):
        logits = torch.zeros(1, model.vocabulary)
        logits[0, [*tokens, model.tokenizer.eos_token_id][next(places)]] = 9
        return [logits], None

    monkeypatch.setattr(greedy._forward, "run", run)
    return greedy([[2, 3, 4]])[0]


def test_a_line_ends_a_short_answer_and_a_blank_line_a_solution(model, monkeypatch):
    text = " the sun\nThe moon\n\nQuestion: Why"
    line = write(model, text, GenerationSettings(), monkeypatch)
    assert (line.text, line.cut) == ("the sun", False)
    assert line.n_tokens == len(line.ids) - 1
    solved = write(model, text, GenerationSettings(), monkeypatch, kind="number")
    assert solved.text == "the sun\nThe moon"
    same = write(model, text, GenerationSettings(stop="paragraph"), monkeypatch)
    assert same.text == solved.text
    asked = write(model, " 5 Question: Why", GenerationSettings(stop="paragraph"), monkeypatch)
    assert asked.text == "5"
    assert stop_texts(GenerationSettings(stop="line"), "number") == ("\n",)


def test_end_token_limit_and_nothing_at_all(model, monkeypatch):
    whole = write(model, " the sun", GenerationSettings(), monkeypatch)
    assert (whole.text, whole.cut) == ("the sun", False)
    assert whole.ids[-1] == model.tokenizer.eos_token_id
    cut = write(model, " the sun and the moon", GenerationSettings(max_new_tokens=2), monkeypatch)
    assert (cut.cut, cut.n_tokens, len(cut.ids)) == (True, 2, 2)
    nothing = write(model, "", GenerationSettings(), monkeypatch)
    assert (nothing.text, nothing.n_tokens, nothing.cut) == ("", 0, False)
    assert nothing.averaged.exp().sum() == pytest.approx(1, abs=1e-5)


def test_a_prompt_needs_room_for_its_answer(model, benchmark):
    with pytest.raises(InputError, match=r"does not fit the model's 512; lower generation\.few"):
        score(model, benchmark, GenerationSettings(few_shot=1, max_new_tokens=510))


def test_the_table_says_what_was_written_and_how_it_was_judged(model, benchmark, tmp_path):
    found = score(model, benchmark, SHORT).predictions
    table = found.table
    assert found.open_ended
    assert (found.meta["normalisation"], found.meta["stop"]) == ("exact_match", ["\n"])
    assert found.meta["max_new_tokens"] == 12
    assert table["prediction_source"].unique().tolist() == ["generated"]
    assert table[["loglik", "gold", "n_options", "prediction"]].isna().all(axis=None)
    for item, row in zip(benchmark.items, table.itertuples(), strict=True):
        judged = judge(row.generated, item.answers)
        assert (row.correct, row.f1) == (judged.correct, judged.f1)
        assert ("empty" in row.flags) == (row.generated == "")
    about = found.generation()
    assert about["cut"] == sum("cut" in flags for flags in table["flags"])
    assert about["n_generated"] == pytest.approx(table["n_generated"].mean())
    assert found.chance == 0
    again = Predictions.load(found.save(tmp_path / "p.parquet"))
    assert again.table["generated"].tolist() == table["generated"].tolist()
    with pytest.raises(InputError, match="no options to score"):
        again.scores()


def test_numbers_have_no_f1(model, benchmark):
    counted = replace(benchmark, answer_kind="number")
    found = score(model, counted, SHORT).predictions
    assert found.meta["normalisation"] == "flexible_extract"
    assert found.generation()["f1"] is None
    assert found.table["f1"].isna().all()
    assert counted.fingerprint() != benchmark.fingerprint()


def test_settings_of_the_other_type_are_refused(model, benchmark):
    with pytest.raises(InputError, match="give GenerationSettings"):
        score(model, benchmark, PredictionsSettings())


def test_writing_goes_on_after_a_kill_without_writing_again(
    model, benchmark, tmp_path, monkeypatch
):
    settings = SHORT.model_copy(update={"chunk_size": 2})
    whole = score(model, benchmark, settings)
    asked = []

    def until_killed(greedy, language_model, bench, chunk, given):
        if len(asked) == 2:
            raise KeyboardInterrupt
        return counted(greedy, language_model, bench, chunk, given)

    def counted(greedy, language_model, bench, chunk, given):
        asked.append(list(chunk))
        return generate_chunk(greedy, language_model, bench, chunk, given)

    monkeypatch.setattr(scores_module, "generate_chunk", until_killed)
    with pytest.raises(KeyboardInterrupt):
        score(model, benchmark, settings, folder=tmp_path)
    monkeypatch.setattr(scores_module, "generate_chunk", counted)
    resumed = score(model, benchmark, settings, folder=tmp_path)
    assert asked == [[0, 1], [2, 3], [4]]
    columns = ["generated", "n_generated", "f1", "correct"]
    assert resumed.predictions.table[columns].equals(whole.predictions.table[columns])
    np.testing.assert_array_equal(resumed.distributions, whole.distributions)
    score(model, benchmark, settings.model_copy(update={"max_new_tokens": 3}), folder=tmp_path)
    assert asked[3:] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("written", "answer", "exact", "f1"),
    [  # worked out by hand from the rules of SQuAD 1.1
        ("The Eiffel Tower.", "eiffel tower", True, 1),
        ("Duke of York", "the Duke of York's", False, 2 / 3),
        ("in 1863, in July", "July 1863", False, 2 / 3),
        ("b b c", "b c c", False, 2 / 3),
        ("Theatre", "theater", False, 0),
        ("an answer at all", "no match", False, 0),
        ("Jean-Luc  Picard", "Jean Luc Picard", False, 0.4),
        ("another", "other", False, 0),
    ],
)
def test_texts_are_compared_by_the_rules_of_squad(written, answer, exact, f1):
    assert judge(written, [answer]).correct is exact
    assert token_f1(written, answer) == token_f1(answer, written) == pytest.approx(f1)


def test_any_accepted_answer_counts_and_the_best_f1():
    found = judge("new york", ["The Big Apple", "New York City"])
    assert not found.correct
    assert found.f1 == pytest.approx(0.8)
    assert judge("BIG apple", ["New York City", "The Big Apple"]).correct


@pytest.mark.parametrize("written", ["", "  ", "\n"])
def test_nothing_written_is_wrong_whatever_is_accepted(written):
    assert judge(written, ["the", "!"]) == judge(written, ["x"])
    assert not judge(written, ["the"]).correct


def test_answers_of_articles_alone_are_still_told_apart():
    assert judge("A", ["a"]).correct
    assert not judge("the", ["A"]).correct


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3 + 4 = 7", "7"),
        ("He pays $1,250.", "1250"),
        ("#### -12", "-12"),
        ("about 2.50 dollars", "2.50"),
        ("none", None),
        ("first 5, then dots ...", ".."),  # a quirk that the harness has, too
    ],
)
def test_the_last_number_is_that_of_flexible_extract(text, number):
    assert last_number(text) == number


def test_numbers_are_compared_as_written():
    assert judge("So it is 1,001.", ["long way\n#### 1001"], kind="number").correct
    assert not judge("So it is 1001.0", ["#### 1001"], kind="number").correct
    assert not judge("", ["none"], kind="number").correct
