"""The catalogue of models: schema, families, sizes that follow from the architecture, memory."""

from __future__ import annotations

import pytest

from harmony_utils.errors import InputError
from harmony_utils.scoring import catalogue
from harmony_utils.scoring.catalogue import check_memory, find_entry, list_models

FAMILIES = {"Llama 3": 8, "Qwen3": 11, "Gemma 3": 8, "Phi-3": 3, "OLMo 2": 6}


def test_thirty_six_checkpoints_of_five_families():
    entries = [entry for entry in list_models() if not entry.offline]
    counts = {f: sum(e.family == f for e in entries) for f in FAMILIES}
    assert counts == FAMILIES
    assert len({entry.name for entry in list_models()}) == len(list_models())
    for entry in entries:
        assert entry.parameters > 1e8
        assert entry.tokens > 1e11
        assert entry.source.endswith(entry.name)
        assert entry.gated == (entry.family in ("Llama 3", "Gemma 3"))
    assert all(
        entry.revisions for entry in entries if entry.family == "OLMo 2" and not entry.instruct
    )


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("Qwen/Qwen3-0.6B", "Qwen3", (151936, 1024, 3072, 28, 16, 8, 128, True)),
        ("meta-llama/Llama-3.2-1B", "Llama", (128256, 2048, 8192, 16, 32, 8, 64, True)),
        ("google/gemma-3-1b-pt", "Gemma3Text", (262144, 1152, 6912, 26, 4, 1, 256, True)),
        ("allenai/OLMo-2-0425-1B", "Olmo2", (100352, 2048, 8192, 16, 16, 16, 128, False)),
    ],
)
def test_parameters_follow_from_the_architecture(name, kind, values):
    import torch
    import transformers

    fields = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    fields += ("num_attention_heads", "num_key_value_heads", "head_dim", "tie_word_embeddings")
    config = getattr(transformers, f"{kind}Config")(**dict(zip(fields, values, strict=True)))
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    entry = find_entry(name)
    assert sum(p.numel() for p in model.parameters()) == entry.parameters
    assert entry.layers == config.num_hidden_layers


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(monkeypatch):
    large = find_entry("meta-llama/Llama-3.1-70B")
    monkeypatch.setattr(catalogue, "available_memory_gb", lambda device: 24.0)
    with pytest.raises(InputError, match=r"needs about 339 GB as float32, cpu has 24 GB free"):
        check_memory(large, dtype="float32", device="cpu")
    check_memory(find_entry("Qwen/Qwen3-0.6B"), dtype="float32", device="cpu")
    monkeypatch.setattr(catalogue, "available_memory_gb", lambda device: None)
    check_memory(large, dtype="float32", device="cpu")


def test_free_memory_is_a_number_here():
    assert catalogue.available_memory_gb("cpu") > 0
