"""Teacher forcing: the same numbers however they are computed, and resuming after a kill."""

from __future__ import annotations

import os
import shutil
import socket
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from harmony_utils import hub
from harmony_utils.errors import InputError
from harmony_utils.items import Benchmark, Item
from harmony_utils.scoring import load_model, render_item, score
from harmony_utils.scoring import scores as scores_module
from harmony_utils.scoring.forward import Forward, encode
from harmony_utils.scoring.models import ModelSpec, identify_model
from harmony_utils.scoring.prompts import Prompt, build_prompt, choose_examples
from harmony_utils.settings import PredictionsSettings
from harmony_utils.sources import load_benchmark


@pytest.fixture(scope="module")
def model(tiny_model):
    return load_model(str(tiny_model), device="cpu")


@pytest.fixture(scope="module")
def benchmark():
    items = [
        Item("a", "What warms the earth?", ("the sun", "the moon", "a river of sand"), 0, "sky"),
        Item("b", "Iron", ("rusts", "sings"), 0, "metal"),
        Item("c", "Who ruled long ago, before the sea?", ("kings", "plants", "gold", "light"), 2),
        Item("d", "Two plus three is", ("five", "six", "a very long wrong answer indeed"), 0),
        Item("e", "Plants make", ("sugar", "iron"), 1, passage="Light falls on the leaf."),
    ]
    return Benchmark("toy", tuple(items))


def naive_loglik(model, prefix: str, option: str) -> tuple[float, np.ndarray]:
    """The definition, one text at a time with no batch, padding or cache."""
    before = model.tokenizer(prefix)["input_ids"]
    whole = model.tokenizer(prefix + option)["input_ids"]
    assert whole[: len(before)] == before
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([whole])).logits[0]
    rows = torch.log_softmax(logits.float(), dim=-1)[len(before) - 1 : -1]
    total = sum(float(row[token]) for row, token in zip(rows, whole[len(before) :], strict=True))
    return total, rows.numpy()


def test_log_likelihoods_are_those_of_the_definition(model, benchmark):
    table = score(model, benchmark).predictions.table
    for item, loglik in zip(benchmark.items, table["loglik"], strict=True):
        prompt = render_item(item, format="cloze", style="question")
        expected = [naive_loglik(model, prompt.prefix, o)[0] for o in prompt.continuations]
        np.testing.assert_allclose(loglik, expected, atol=1e-4)


@pytest.mark.parametrize("variant", ["gold-mean", "gold-geometric", "options", "prompt-end"])
def test_averaged_distributions_are_those_of_the_definition(model, benchmark, variant):
    found = score(model, benchmark, PredictionsSettings(variant=variant)).distributions
    for item, row in zip(benchmark.items, np.exp(found.astype(float)), strict=True):
        prompt = render_item(item, format="cloze", style="question")
        options = [np.exp(naive_loglik(model, prompt.prefix, o)[1]) for o in prompt.continuations]
        expected = {
            "gold-mean": options[item.gold].mean(axis=0),
            "gold-geometric": np.exp(np.log(options[item.gold]).mean(axis=0)),
            "options": np.mean([option.mean(axis=0) for option in options], axis=0),
            "prompt-end": options[0][0],
        }[variant]
        np.testing.assert_allclose(row, expected / expected.sum(), atol=2e-3)
        assert row.sum() == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"batch_size": 3, "padding_side": "right"},
        {"batch_size": 5, "share_prefix": False},
        {"batch_size": 2, "share_prefix": False, "padding_side": "right"},
        {"chunk_size": 2},
    ],
)
def test_batches_padding_cache_and_chunks_change_nothing(model, benchmark, options):
    reference = score(model, benchmark)
    other = score(model, benchmark, PredictionsSettings(**options))
    for a, b in zip(
        reference.predictions.table["loglik"], other.predictions.table["loglik"], strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(
        np.exp(reference.distributions.astype(float)),
        np.exp(other.distributions.astype(float)),
        atol=1e-3,
    )
    assert PredictionsSettings(**options).identity() == PredictionsSettings().identity()


@pytest.mark.parametrize("variant", ["gold-mean", "options"])
def test_batches_hold_no_more_logits_than_allowed(model, benchmark, variant, monkeypatch):
    settings = PredictionsSettings(variant=variant)
    reference = score(model, benchmark, settings)
    tokens = [max(row) for row in reference.predictions.table["tokens"]]
    held = []

    def run(self, ids, mask, positions, needed, **more):
        held.append(len({p for wanted in needed for p in wanted}) * len(ids) * self.vocabulary)
        return plain(self, ids, mask, positions, needed, **more)

    plain = Forward.run
    monkeypatch.setattr(Forward, "run", run)
    for options_at_once in (4, 1):  # at the longest option's length
        held.clear()
        monkeypatch.setattr(
            scores_module, "LOGITS", options_at_once * max(tokens) * model.vocabulary
        )
        other = score(model, benchmark, settings)
        assert max(held) <= scores_module.LOGITS
        for name in ("loglik", "tokens"):
            pairs = zip(*(s.predictions.table[name] for s in (reference, other)), strict=True)
            for a, b in pairs:
                np.testing.assert_allclose(a, b, atol=1e-4)
        shares = [np.exp(s.distributions.astype(float)) for s in (reference, other)]
        np.testing.assert_allclose(*shares, atol=1e-3)


def test_letters_and_few_shot(model, benchmark):
    item = benchmark.items[1]
    prompt = build_prompt(benchmark, item, PredictionsSettings(format="letter", few_shot=2))
    assert prompt.continuations == (" A", " B")
    assert prompt.prefix.endswith("Question: Iron\nA. rusts\nB. sings\nAnswer:")
    assert prompt.prefix.count("Question:") == 3
    table = score(model, benchmark, PredictionsSettings(format="letter")).predictions.table
    assert table["characters"].map(list).tolist()[1] == [1, 1]


def test_an_item_is_never_its_own_example(benchmark):
    for item in benchmark.items:
        examples = choose_examples(benchmark, item, 3)
        assert len({e.id for e in examples} - {item.id}) == 3
        assert examples == choose_examples(benchmark, item, 3)
    with pytest.raises(InputError, match=r"lower predictions\.few_shot"):
        choose_examples(benchmark, benchmark.items[0], 5)


def test_examples_of_the_same_subject_come_first():
    mmlu = load_benchmark("mmlu:anatomy,astronomy", limit=4)
    for item in mmlu.items:
        assert {e.subject for e in choose_examples(mmlu, item, 5)} == {item.subject}


def test_continuations_have_no_question(benchmark):
    continued = replace(benchmark, prompt_style="continuation")
    assert build_prompt(continued, continued.items[1], PredictionsSettings()).prefix == "Iron"


def test_chat_template(model, benchmark):
    plain = score(model, benchmark).predictions
    chat = score(model, benchmark, PredictionsSettings(chat_template=True)).predictions
    assert not np.allclose(plain.table["loglik"][0], chat.table["loglik"][0])


def test_a_missing_chat_template_is_said(model, benchmark, monkeypatch):
    monkeypatch.setattr(model.tokenizer, "chat_template", None)
    with pytest.raises(InputError, match="no chat template"):
        score(model, benchmark, PredictionsSettings(chat_template=True))


def test_token_that_spans_the_border_is_the_options(model):
    prefix_only = Prompt("Question: Plant", ("s make sugar",))
    (option,) = encode(model.tokenizer, [prefix_only])[0]
    whole = model.tokenizer("Question: Plants make sugar")["input_ids"]
    assert list(option.ids) == whole
    before = model.tokenizer("Question: Plant")["input_ids"]
    assert option.spans_border == (whole[: len(before)] != before)


def test_empty_prompt_begins_with_a_special_token(model):
    (option,) = encode(model.tokenizer, [Prompt("", (" sand",))])[0]
    assert option.start == 1
    assert option.ids[0] == model.tokenizer.bos_token_id


def test_options_without_tokens_and_long_prompts_are_refused(model, benchmark):
    with pytest.raises(InputError, match="no token of its own"):
        encode(model.tokenizer, [Prompt("a", ("",))])
    long = Item("long", "river " * 600, ("a", "b"), 0)
    with pytest.raises(InputError, match="does not fit"):
        score(model, Benchmark("long", (long,)))


def test_scoring_goes_on_after_a_kill_without_scoring_again(
    model, benchmark, tmp_path, monkeypatch
):
    settings = PredictionsSettings(chunk_size=2)
    whole = score(model, benchmark, settings)
    original = scores_module._score_chunk
    scored = []

    def counted(forward, language_model, bench, chunk, given):
        if len(scored) == 2:
            raise KeyboardInterrupt
        scored.append(list(chunk))
        return original(forward, language_model, bench, chunk, given)

    monkeypatch.setattr(scores_module, "_score_chunk", counted)
    with pytest.raises(KeyboardInterrupt):
        score(model, benchmark, settings, folder=tmp_path)
    assert not (tmp_path / "distributions.npy").exists()

    def rest(forward, language_model, bench, chunk, given):
        scored.append(list(chunk))
        return original(forward, language_model, bench, chunk, given)

    monkeypatch.setattr(scores_module, "_score_chunk", rest)
    resumed = score(model, benchmark, settings, folder=tmp_path)
    assert scored == [[0, 1], [2, 3], [4]]
    assert resumed.predictions.table["loglik"].map(list).tolist() == (
        whole.predictions.table["loglik"].map(list).tolist()
    )
    np.testing.assert_array_equal(resumed.distributions, whole.distributions)


def test_chunks_of_another_scoring_are_not_used(model, benchmark, tmp_path):
    score(model, benchmark, PredictionsSettings(variant="options"), folder=tmp_path)
    mixed = score(model, benchmark, PredictionsSettings(), folder=tmp_path)
    fresh = score(model, benchmark, PredictionsSettings())
    np.testing.assert_array_equal(mixed.distributions, fresh.distributions)


def test_early_exit_is_the_model_cut_after_some_layers(tiny_model, benchmark):
    cut = load_model(f"{tiny_model}#layer=1", device="cpu")
    hidden = cut.model.model.layers
    assert len(hidden) == 1
    assert cut.description["layer"] == 1
    assert cut.description["parameters"] > sum(p.numel() for p in cut.model.parameters())
    whole = load_model(str(tiny_model), device="cpu")
    with torch.inference_mode():
        ids = torch.tensor([[5, 6, 7]])
        states = whole.model(ids, output_hidden_states=True).hidden_states[1]
        expected = whole.model.lm_head(whole.model.model.norm(states))
        found = cut.model(ids).logits
    torch.testing.assert_close(found, expected)
    with pytest.raises(InputError, match="has 2 layers"):
        load_model(f"{tiny_model}#layer=3", device="cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2", "did you mean smollm2-135m"),
        ("", "name is empty"),
        ("smollm2-135m#layers=2", "after # write layer=N"),
    ],
)
def test_unusable_model_names(name, message):
    with pytest.raises(InputError, match=message):
        load_model(name)


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(InputError, match="neither a config"):
        load_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(tmp_path))


def test_a_hub_that_is_not_there_is_said_at_once(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="without a network use smollm2-135m, gemma3-270m"):
        load_model("nobody/nothing")


def test_a_silent_hub_is_given_up_soon(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 0.3)
        start = time.monotonic()
        with pytest.raises(InputError, match=r"cannot be reached .*not downloaded before"):
            identify_model("nobody/nothing")
        assert time.monotonic() - start < 5


def test_a_model_downloaded_before_needs_no_hub(tiny_model, tmp_path, monkeypatch):
    snapshot = tmp_path / "models--owner--tiny" / "snapshots" / ("a" * 40)
    shutil.copytree(tiny_model, snapshot)
    references = tmp_path / "models--owner--tiny" / "refs"
    references.mkdir()
    (references / "main").write_text("a" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert identify_model("owner/tiny")["version"] == "a" * 40
    model = load_model("owner/tiny", device="cpu")
    assert model.vocabulary == 320


def test_identity_changes_with_local_weights(tiny_model):
    before = identify_model(str(tiny_model))
    weights = next(tiny_model.glob("*.safetensors"))
    stat = weights.stat()
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert identify_model(str(tiny_model)) != before
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert identify_model(str(tiny_model)) == before


def test_slugs_are_folder_names():
    assert ModelSpec.parse("owner/name@step-5#layer=3").slug == "owner--name--step-5--layer-03"
    assert ModelSpec.parse("smollm2-135m").slug == "smollm2-135m"
