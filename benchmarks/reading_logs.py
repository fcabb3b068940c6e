"""How long does reading a log take, against only parsing it, and how much memory?

Writes logs of a given size to a temporary folder, reads each with :func:`read_logs` and with the
plain parser of its container (``json.loads`` a line, ``json.load``, ``pyarrow``), each in a process
of its own, and prints the ratio of their processor times and the peak memory above that of an empty
process. Run with two sizes to see what grows with the file.

    python benchmarks/reading_logs.py --megabytes 10 50
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harmony_utils.logs import read_logs

N_OPTIONS = 4
WORDS = (
    *("which", "of", "these", "best", "describes", "how", "the", "river", "moved", "after", "a"),
    *("heavy", "storm", "passed", "over", "cold", "northern", "mountains", "into", "valleys"),
)
EXAMPLES = {"short": 0, "long": 5}
"""Few-shot examples in each prompt."""


def text(rng: np.random.Generator, n_words: int) -> str:
    """Return random words."""
    return " ".join([WORDS[i] for i in rng.integers(len(WORDS), size=n_words)])


def questions(n_examples: int) -> Iterator[dict[str, Any]]:
    """Yield questions with a prompt, options, log-likelihoods and the correct option."""
    rng = np.random.default_rng(0)
    shots = "".join(f"Question: {text(rng, 60)}\nAnswer: {text(rng, 8)}\n\n" for _ in range(5))
    shots = shots if n_examples else ""
    for i in count():
        question = f"{text(rng, 40)} {i}?"
        yield {
            "id": i,
            "question": question,
            "prompt": f"{shots}Question: {question}\nAnswer:",
            "options": [text(rng, 5) for _ in range(N_OPTIONS)],
            "loglik": [float(v) for v in -5 * rng.random(N_OPTIONS)],
            "gold": int(rng.integers(N_OPTIONS)),
        }


def scores(q: dict[str, Any]) -> tuple[float, float]:
    """Return acc and acc_norm."""
    lengths = [len(option) for option in q["options"]]
    plain, divided = np.argmax(q["loglik"]), np.argmax(np.divide(q["loglik"], lengths))
    return float(plain == q["gold"]), float(divided == q["gold"])


def lm_eval_line(q: dict[str, Any]) -> dict[str, Any]:
    """Return a row of lm-evaluation-harness 0.4.8."""
    pairs = [[[str(v), "False"]] for v in q["loglik"]]
    acc, acc_norm = scores(q)
    requests = {
        f"gen_args_{i}": {"arg_0": q["prompt"], "arg_1": f" {option}"}
        for i, option in enumerate(q["options"])
    }
    return {
        "doc_id": q["id"],
        "doc": {"question": q["question"], "choices": q["options"], "answer": q["gold"]},
        "target": str(q["gold"]),
        "arguments": requests,
        "resps": pairs,
        "filtered_resps": [pair[0] for pair in pairs],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": "0" * 64,
        "prompt_hash": "0" * 64,
        "target_hash": "0" * 64,
        "acc": acc,
        "acc_norm": acc_norm,
    }


def lm_eval_old(q: dict[str, Any]) -> dict[str, Any]:
    """Return a row of lm-evaluation-harness 0.4.2."""
    pairs = [[[v, False]] for v in q["loglik"]]
    acc, acc_norm = scores(q)
    return {
        "doc_id": q["id"],
        "doc": {"question": q["question"], "choices": q["options"], "answer": q["gold"]},
        "target": q["gold"],
        "arguments": [[q["prompt"], f" {option}"] for option in q["options"]],
        "resps": pairs,
        "filtered_resps": [pair[0] for pair in pairs],
        "acc": acc,
        "acc_norm": acc_norm,
    }


def inspect_sample(q: dict[str, Any]) -> dict[str, Any]:
    """Return a sample of Inspect."""
    answer = "ABCD"[int(np.argmax(q["loglik"]))]
    said = {"role": "assistant", "content": f"ANSWER: {answer}"}
    right = answer == "ABCD"[q["gold"]]
    return {
        "id": q["id"],
        "epoch": 1,
        "input": q["question"],
        "choices": q["options"],
        "target": "ABCD"[q["gold"]],
        "messages": [{"role": "user", "content": q["prompt"]}, said],
        "output": {"choices": [{"message": said, "stop_reason": "stop"}]},
        "scores": {"choice": {"value": "C" if right else "I", "answer": answer}},
        "metadata": {"subject": "rivers"},
        "events": [{"event": "model", "input": q["prompt"], "output": said, "usage": {"n": 3}}],
    }


def lighteval_row(q: dict[str, Any]) -> dict[str, Any]:
    """Return a row of lighteval 0.13."""
    return {
        "doc": {
            "query": q["question"],
            "choices": q["options"],
            "gold_index": q["gold"],
            "id": str(q["id"]),
            "task_name": "quiz|0",
        },
        "metric": {"acc": int(scores(q)[0])},
        "model_response": {"input": q["prompt"], "logprobs": q["loglik"], "text": []},
    }


def pieces(rows: Iterator[Any], size: int) -> Iterator[str]:
    """Yield rows as text until there are ``size`` bytes."""
    written = 0
    for row in rows:
        line = json.dumps(row, ensure_ascii=False)
        written += len(line)
        yield line
        if written > size:
            return


def write_lines(path: Path, kind: str, size: int) -> None:
    """Write lines as version 0.4.8 does."""
    with open(path, "w") as file:
        for line in pieces(map(lm_eval_line, questions(EXAMPLES[kind])), size):
            file.write(line + "\n")


def write_array(path: Path, kind: str, size: int) -> None:
    """Write one indented array as version 0.4.2 does."""
    rows = map(lm_eval_old, questions(EXAMPLES[kind]))
    indented = (json.dumps(json.loads(p), indent=2) for p in pieces(rows, size * 3 // 4))
    path.write_text("[" + ",\n".join(indented) + "]")


def write_inspect(path: Path, kind: str, size: int) -> None:
    """Write an Inspect log."""
    samples = pieces(map(inspect_sample, questions(EXAMPLES[kind])), size)
    about = {"version": 2, "status": "success", "eval": {"task": "quiz", "model": "m"}, "plan": {}}
    path.write_text(
        json.dumps(about, indent=2)[:-2] + ',\n"samples": [' + ",\n".join(samples) + "]}"
    )


def write_parquet(path: Path, kind: str, size: int) -> None:
    """Write details of lighteval; their size is that of the same rows as JSON."""
    rows = (json.loads(p) for p in pieces(map(lighteval_row, questions(EXAMPLES[kind])), size))
    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=1000)


def parse_lines(path: Path) -> int:
    """Parse each line and let go of it."""
    with open(path, "rb") as file:
        return sum(bool(json.loads(line)) for line in file)


def parse_document(path: Path) -> int:
    """Parse the whole document."""
    with open(path, "rb") as file:
        return len(json.load(file))


def parse_parquet(path: Path) -> int:
    """Turn the whole table into Python values."""
    return len(pq.read_table(path).to_pylist())


FORMS: dict[str, tuple[Callable, Callable]] = {
    "lm-eval lines": (write_lines, parse_lines),
    "lm-eval array": (write_array, parse_document),
    "inspect json": (write_inspect, parse_document),
    "lighteval parquet": (write_parquet, parse_parquet),
}


def measure(what: str, form: str, path: Path) -> dict[str, float]:
    """Return processor seconds and peak memory in MB of one way to read a file."""
    started = time.process_time()
    items = 0
    if what == "import":
        (log,) = read_logs([str(path)]).logs
        items = len(log.predictions)
    elif what == "parse":
        FORMS[form][1](path)
    return {"seconds": time.process_time() - started, "peak": peak_memory(), "items": items}


def peak_memory() -> float:
    """Return this process's peak memory in MB (Linux: what a parent had does not count)."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_own_process(what: str, form: str, path: Path, repeats: int) -> dict[str, float]:
    """Return the fastest of several measurements, each in a process of its own."""
    command = [sys.executable, __file__, "--measure", what, form, str(path)]
    found = [json.loads(subprocess.check_output(command)) for _ in range(repeats)]
    return min(found, key=lambda one: one["seconds"])


def main() -> None:
    """Measure every form, size and length of prompt; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--repeats", type=int, default=2, help="of which the fastest counts")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure[0], given.measure[1], Path(given.measure[2]))))
        return
    print(
        f"{'form':18} {'prompt':6} {'MB':>4} {'items':>6} {'parse s':>8} {'read s':>7} "
        f"{'ratio':>6} {'parse MB':>9} {'read MB':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for form, (write, _) in FORMS.items():
            for kind in EXAMPLES:
                for size in given.megabytes:
                    path = Path(folder) / "log"
                    write(path, kind, size * 10**6)
                    base = in_own_process("nothing", form, path, 1)["peak"]
                    parse = in_own_process("parse", form, path, given.repeats)
                    found = in_own_process("import", form, path, given.repeats)
                    print(
                        f"{form:18} {kind:6} {size:4} {found['items']:6} {parse['seconds']:8.2f} "
                        f"{found['seconds']:7.2f} {found['seconds'] / parse['seconds']:6.2f} "
                        f"{parse['peak'] - base:9.0f} {found['peak'] - base:8.0f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
