"""``harmony fill``: rules as a panel, files, resuming, generators and errors."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from conftest import harmony_command

from harmony_utils import stages
from harmony_utils.cli import main
from harmony_utils.filling import GeneratorError
from harmony_utils.settings import parse_settings
from harmony_utils.sources import load_benchmark
from harmony_utils.stages import filling

RULES = ("minilm", "tfidf", "longest", "random")
PANEL = [f"--model=respondent:{rule}" for rule in RULES]
BAND = ["--gap=0:3:3", "--widest=3", "--in-band=0.3", "--measured=16", "--rounds=2"]


def arguments(folder, *more):
    return [
        "fill", "--benchmark=redundantqa", "--limit=40", f"--out={folder}", *PANEL, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A finished filling and what it printed."""
    root = tmp_path_factory.mktemp("fill")
    done = harmony_command(*arguments(root, *BAND, "--json"))
    assert done.returncode == 0, done.stderr
    return root / "redundantqa--40--filling", json.loads(done.stdout)


def test_every_candidate_is_kept_and_the_accepted_ones_are_a_benchmark(filled):
    folder, found = filled
    rows = [json.loads(line) for line in (folder / "candidates.jsonl").read_text().splitlines()]
    table = pd.read_csv(folder / "candidates.csv")
    assert len(rows) == len(table) == found["proposed"]
    assert (table["status"] == "accepted").sum() == found["accepted"] > 0
    rejected = table[table["status"] == "rejected"]
    assert len(rejected)
    assert rejected["reason"].notna().all()
    asked = [row for row in rows if row["status"] != "not measured" and row["answers"]]
    assert set(asked[0]["answers"]) == {f"respondent:{rule}" for rule in RULES}
    new = load_benchmark(str(folder / "accepted.jsonl"))
    assert len(new) == found["accepted"]
    first = json.loads((folder / "accepted.jsonl").read_text().splitlines()[0])
    originals = {item.id: item for item in load_benchmark("redundantqa").items}
    assert first["reviewed"] is False
    assert first["source"] in originals


def test_originals_and_additions_stay_apart(filled):
    folder, found = filled
    parts = pd.read_csv(folder / "conclusions.csv").set_index("part")["n_items"]
    assert parts["with additions"] == parts["originals"] + parts["additions alone"]
    scores = pd.read_csv(folder / "scores.csv")
    assert list(scores["model"]) == found["models"]
    assert {"originals", "additions", "together"} <= set(scores.columns)


def test_the_same_command_asks_nobody_again(filled, monkeypatch):
    folder, _ = filled
    monkeypatch.setattr(filling, "respond", lambda *_: pytest.fail("asked again"))
    before = (folder / "candidates.csv").read_text()
    with pytest.raises(SystemExit) as done:
        main(arguments(folder.parent, *BAND, "--json"))
    assert done.value.code == 0
    assert (folder / "candidates.csv").read_text() == before


def test_an_endpoint_that_breaks_off_leaves_a_report(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise GeneratorError("endpoint http://localhost:9: cannot be reached (refused)")

    monkeypatch.setattr(filling.EndpointChat, "__call__", broken)
    with pytest.raises(SystemExit) as done:
        main(arguments(tmp_path, *BAND, "--generator=http://localhost:9/v1#m"))
    assert done.value.code == 0
    assert "cannot be reached" in capsys.readouterr().out
    assert (tmp_path / "redundantqa--40--filling" / "filling.json").exists()


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--gap=3:1:2"], 2, "give LOW:HIGH:N"),
        (["--gap=1:2"], 2, "give LOW:HIGH:N"),
        (["--target=high"], 2, "give LOW:HIGH"),
        (["--generator=magic", "--gap=0:1:2"], 2, "choose surgery, random, chat:MODEL"),
        (["--generator=http://localhost:9/v1", "--gap=0:1:2"], 2, "URL#MODEL"),
        (["--reader=respondent:longest", "--gap=0:1:2"], 2, "a rule has no likelihoods"),
        (["--model=respondent:minilm"], 2, "given twice"),
    ],
)
def test_bad_input_is_one_line(tmp_path, more, code, message, capsys):
    with pytest.raises(SystemExit) as done:
        main(arguments(tmp_path, *more))
    assert done.value.code == code
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("harmony: ")
    assert message in complaint


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--generator=magic"], "choose surgery, random, chat:MODEL"),
        (["--generator=chat:no-such-model"], "no such catalogue name"),
        (["--reader=no-such-model"], "no such catalogue name"),
        (["--irt=3pl"], "choose 1pl or 2pl"),
        (["--widest=-1"], "positive width"),
        (["--seed=-1"], "greater than or equal to 0"),
    ],
)
def test_what_cannot_work_is_told_before_anybody_answers(
    tmp_path, more, message, capsys, monkeypatch
):
    monkeypatch.setattr(filling, "_answered", None)
    with pytest.raises(SystemExit) as done:
        main(arguments(tmp_path, *more))
    assert done.value.code == 2
    assert message in capsys.readouterr().err


def test_two_respondents_are_too_few(tmp_path, capsys):
    with pytest.raises(SystemExit) as done:
        main(["fill", "--benchmark=redundantqa", "--limit=40", f"--out={tmp_path}", *PANEL[:2]])
    assert done.value.code == 2
    assert "at least 3" in capsys.readouterr().err


def test_without_a_gap_that_is_told_from_chance_nothing_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(filling, "find_gaps", lambda *_, **__: [])
    with pytest.raises(SystemExit) as done:
        main(arguments(tmp_path))
    assert done.value.code == 3
    assert "no gap to fill" in capsys.readouterr().err


def test_different_benchmarks_are_refused(tmp_path):
    audits = [
        stages.open_audit(model=f"respondent:{rule}", benchmark=name, limit=40, run_dir=tmp_path)
        for rule, name in (("longest", "redundantqa"), ("first", "copa"), ("random", "copa"))
    ]
    with pytest.raises(filling.InputError, match="one and the same benchmark"):
        stages.fill_benchmark(audits, folder=tmp_path / "f")


def test_answers_given_under_other_settings_are_not_taken(tmp_path):
    audits = [stages.open_audit(model="smollm2-135m", benchmark="copa", run_dir=tmp_path)]
    before = filling._answers_name(audits)
    assert filling._answers_name(audits) == before
    audits[0].configure(parse_settings({"predictions": {"format": "letter"}}))
    assert filling._answers_name(audits) != before
