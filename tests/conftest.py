"""A tiny real model, a small quiz and one finished audit, shared by the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CORPUS = (
    "Question: What is two plus three? Answer: five. The sun warms the earth and the moon turns. "
    "A. B. C. D. Plants make sugar from light, water and air; animals eat plants. "
    "Rivers carry sand to the sea. Iron rusts, gold does not. Kings and queens ruled long ago. "
)


def build_model(folder: Path, *, seed: int = 0) -> Path:
    """Write a random two-layer Llama with a byte-level tokenizer, 70 kB, loadable offline."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<eos>"
    )
    wrapped.chat_template = "{% for m in messages %}<bos>{{ m.content }}\n{% endfor %}Reply: "
    wrapped.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_quiz(path: Path, n_items: int = 20) -> Path:
    """Write a file of sums: two subjects, four options, the right one at changing places."""
    rows = []
    for i in range(n_items):
        options = [str(i + j) for j in range(4)]
        subject = "even" if i % 2 == 0 else "odd"
        question = f"What is {i} plus {i % 4}?"
        row = {"id": f"q{i}", "question": question, "options": options, "gold": i % 4}
        rows.append(json.dumps({**row, "subject": subject}))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random causal model."""
    return build_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's own 20-line JSONL."""
    return write_quiz(tmp_path_factory.mktemp("quiz") / "quiz.jsonl")


def harmony_command(*arguments: str, **options) -> subprocess.CompletedProcess:
    """Run the ``harmony`` command as a user would."""
    command = [sys.executable, "-m", "harmony_utils.cli", *map(str, arguments)]
    environment = {**os.environ, "HARMONY_PROGRESS": "none", **options.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=600, **options
    )


@pytest.fixture(scope="session")
def finished_run(tiny_model, quiz, tmp_path_factory):
    """One whole audit by the command: (its output, the run root)."""
    root = tmp_path_factory.mktemp("runs")
    done = harmony_command(
        "audit", "--model", tiny_model, "--benchmark", quiz, "--out", root, "--json"
    )
    assert done.returncode == 0, done.stderr
    return done, root
