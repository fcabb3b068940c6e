"""A person's own files: what is read, how the gold column is understood, and every refusal."""

import json

import pandas as pd
import pytest

from harmony_utils.errors import InputError
from harmony_utils.sources import load_benchmark
from harmony_utils.sources.gold import read_golds

GOOD = {"question": "2 + 2 =", "options": ["3", "4", "5"], "gold": 1}


def write(path, *rows, **changes):
    """Write rows (dictionaries, or text as it stands) as JSONL."""
    lines = [row if isinstance(row, str) else json.dumps({**row, **changes}) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def refusal(spec) -> str:
    with pytest.raises(InputError) as caught:
        load_benchmark(str(spec))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_jsonl_with_all_columns(tmp_path):
    row = {**GOOD, "id": "a", "subject": "sums", "passage": "Numbers add up."}
    benchmark = load_benchmark(write(tmp_path / "My Quiz (v2).jsonl", row, {**GOOD, "id": "b"}))
    first, second = benchmark.items
    assert (first.id, first.question, first.options) == ("a", "2 + 2 =", ("3", "4", "5"))
    assert (first.gold, first.subject, first.passage) == (1, "sums", "Numbers add up.")
    assert (second.subject, second.passage) == (None, None)
    assert benchmark.name == "my_quiz_v2"
    assert (benchmark.split, benchmark.licence, benchmark.prompt_style) == (
        "all",
        "unknown",
        "question",
    )
    assert benchmark.source.startswith("file My Quiz (v2).jsonl (SHA-256 ")


def test_items_without_id_are_called_by_their_line(tmp_path):
    path = write(tmp_path / "a.jsonl", GOOD, "", "  ", GOOD)
    assert [item.id for item in load_benchmark(path).items] == ["1", "4"]


def test_json_list(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([GOOD, GOOD]), encoding="utf-8")
    assert len(load_benchmark(str(path))) == 2


def test_byte_order_mark_and_other_alphabets(tmp_path):
    path = tmp_path / "тест.jsonl"
    row = {**GOOD, "question": "Сколько?\u2028Да"}
    path.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8-sig")
    benchmark = load_benchmark(str(path))
    assert benchmark.name == "тест"
    assert benchmark.items[0].question == row["question"]


@pytest.mark.parametrize(
    "text",
    [
        'question,options,gold\n2 + 2 =,"[""3"", ""4"", ""5""]",1\n',
        "question,option_a,option_b,option_c,gold\n2 + 2 =,3,4,5,B\n",
        "question,option_0,option_1,option_2,gold\n2 + 2 =,3,4,5,b\n",
        "question,option_1,option_2,option_3,gold\n2 + 2 =,3,4,5,B\n",
        "Question,A,B,C,Answer\n2 + 2 =,3,4,5,4\n",
        "\n\nquery,A,B,C,D,label\n\n2 + 2 =,3,4,5,,B\n",
        '"question","A","B","C","gold"\r\n"2 + 2 =","3","4","5","B"\r\n',
    ],
)
def test_csv_layouts(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8", newline="")
    (item,) = load_benchmark(str(path)).items
    assert (item.question, item.options, item.gold) == ("2 + 2 =", ("3", "4", "5"), 1)


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_separator_is_named(tmp_path, sign):
    path = tmp_path / "a.csv"
    path.write_text("question,A,B,gold\n2 + 2 =,3,4,B\n".replace(",", sign))
    assert f"its cells are separated by {sign!r}; write commas" in refusal(path)


def test_tsv_and_quoted_line_breaks(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('question\tA\tB\tgold\n"first\nsecond"\tx\ty\tB\nnext\tx\ty\tC\n')
    assert refusal(path).startswith("a.tsv, row 3: gold 'C' is not a letter from A to B")
    path.write_text('question\tA\tB\tgold\n"first\nsecond"\tx\ty\tB\n')
    assert load_benchmark(str(path)).items[0].question == "first\nsecond"


def test_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame([GOOD, {**GOOD, "gold": 2}]).to_parquet(path)
    assert [item.gold for item in load_benchmark(str(path)).items] == [1, 2]
    path.write_bytes(b"not parquet")
    assert refusal(path).startswith("a.parquet: cannot be read as Parquet")


def test_parameters_name_columns_and_style(tmp_path):
    row = {"stem": "2 +", "rest": "2 =", "right": "4", "wrong": ["3", "5"], "kind": "Easy Sums"}
    path = write(tmp_path / "a.jsonl", row, {**row, "kind": "other"})
    benchmark = load_benchmark(
        f"{path}?question={{stem}} {{rest}}&options=right,wrong&gold_is=first&shuffle=yes"
        "&subject=kind&subjects=easy_sums&prompt_style=continuation&split=pilot"
    )
    (item,) = benchmark.items
    assert (item.question, item.options[item.gold], item.subject) == ("2 + 2 =", "4", "Easy Sums")
    assert (benchmark.name, benchmark.split) == ("a-easy_sums", "pilot")
    assert benchmark.prompt_style == "continuation"


@pytest.mark.parametrize(
    ("parameter", "name"),
    [("subject=topik", "topik"), ("question={topic} {x}", "x"), ("options=options,y", "y")],
)
def test_parameters_that_name_no_column_are_refused(tmp_path, parameter, name):
    path = write(tmp_path / "a.jsonl", {**GOOD, "topic": "sums"})
    assert refusal(f"{path}?{parameter}").startswith(f"a.jsonl: has no column {name!r}")


def test_broken_template_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", GOOD)
    assert "template '{question': " in refusal(f"{path}?question={{question")


def test_file_name_with_question_mark(tmp_path):
    assert len(load_benchmark(write(tmp_path / "what?.jsonl", GOOD))) == 1


OPTIONS = ["3", "4", "5"]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0, 2, 1], "auto", [0, 2, 1]),
        ([1.0, 2.0], "auto", [1, 2]),
        (["0", "2"], "auto", [0, 2]),
        (["A", "c"], "auto", [0, 2]),
        (["5", "3"], "auto", [2, 0]),
        ([1, 3, 2], "position", [0, 2, 1]),
        (["4"], "text", [1]),
        ([None], "first", [0]),
        ([[0, 0, 1]], "one_hot", [2]),
    ],
)
def test_gold_readings(values, kind, expected):
    places = [f"row {i}" for i in range(len(values))]
    assert read_golds(values, [OPTIONS] * len(values), places, kind=kind) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, "B"], "row 2: gold 'B' is written as letter, other rows as index: write all"),
        (["A", "B", "1"], "row 2: gold '1' is written as index, other rows as letter"),
        ([0, 1, 3], "row 2: gold 3 is written as text, other rows as index"),
        ([0, 1, 7], "row 2: gold 7 is not a number from 0 to 2"),
        ([0, 1, -1], "row 2: gold -1 is not a number from 0 to 2"),
        ([1, 2, 7], "row 2: gold 7 is not a number from 0 to 2"),
        (["A", "D"], "row 1: gold 'D' is not a letter from A to C"),
        ([0, None], "row 1: gold is empty"),
        (["A", ""], "row 1: gold is empty"),
        ([True, False], "row 0: gold True is neither a number from 0 to 2, a letter"),
        ([0.5], "row 0: gold 0.5 is neither"),
        (["four"], "row 0: gold 'four' is neither .* nor the text of exactly one option"),
    ],
)
def test_gold_refusals(values, message):
    places = [f"row {i}" for i in range(len(values))]
    with pytest.raises(InputError, match=message):
        read_golds(values, [OPTIONS] * len(values), places)


def test_gold_that_reads_two_ways_is_refused_unless_said():
    options, places = [["1", "0"], ["0", "1"]], ["row 1", "row 2"]
    with pytest.raises(InputError, match="row 1: gold '0' can be read as index or as text"):
        read_golds(["0", "1"], options, places)
    assert read_golds(["0", "1"], options, places, kind="text") == [1, 1]
    assert read_golds(["0", "1"], options[1:] * 2, places) == [0, 1]


def test_numbers_from_one_are_refused_unless_said():
    places = [f"row {i}" for i in range(12)]
    options = [["x", "y", "z"]] * 12
    with pytest.raises(InputError, match=r"add .gold_is=position after the file name"):
        read_golds([1, 2, 3] * 4, options, places)
    with pytest.raises(InputError, match="unclear whether they count from 0 or from 1"):
        read_golds([1, 2] * 6, options, places)
    assert read_golds([1, 2] * 6, options, places, kind="index") == [1, 2] * 6
    assert read_golds([1, 2, 3] * 4, options, places, kind="position") == [0, 1, 2] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": 3}, "line 3: gold 3 is not a number from 0 to 1"),
        ({"question": " "}, "line 3: question is empty"),
        ({"question": None}, "line 3: question is empty"),
        ({"options": ["x"]}, "line 3: needs at least two options, has 1"),
        ({"options": []}, "line 3: needs at least two options, has 0"),
        ({"options": "x, y"}, "line 3: options 'x, y' are not a list"),
        ({"options": {"a": "x"}}, "line 3: options {'a': 'x'} are not a list"),
        ({"options": ["x", None]}, "line 3: option None is not a text"),
        ({"options": ["x", ["y"]]}, "line 3: option ['y'] is not a text"),
        ({"options": ["x", ""]}, "line 3: option 2 is empty"),
        ({"options": ["x", "x "]}, "line 3: options 1 and 2 are both 'x'"),
        ({"id": ""}, "line 3: id is empty"),
        ({"id": "a"}, "line 3: id 'a' was used before in quiz.jsonl, line 1"),
    ],
)
def test_broken_rows_are_named(tmp_path, changes, message):
    good = {"question": "Which?", "options": ["x", "y"], "gold": 0}
    rows = [{**good, "id": "a"}, "", {**good, "id": "b", **changes}]
    assert refusal(write(tmp_path / "quiz.jsonl", *rows)).startswith(f"quiz.jsonl, {message}")


@pytest.mark.parametrize("column", ["question", "options", "gold"])
def test_missing_columns_are_named_with_what_was_found(tmp_path, column):
    row = {name: value for name, value in GOOD.items() if name != column}
    path = write(tmp_path / "quiz.jsonl", {**row, "extra": 1})
    message = refusal(path)
    assert message.startswith(f"quiz.jsonl: has no column for the {column} (looked for {column}")
    assert "extra" in message
    assert f"?{column}=COLUMN" in message
    message = refusal(write(tmp_path / "quiz.jsonl", GOOD, row))
    assert message.startswith(f"quiz.jsonl, line 2: has no '{column}'")


def test_two_columns_for_one_thing_are_refused(tmp_path):
    row = {"question": "?", "options": ["x", "y"], "answer": "x", "label": 1}
    path = write(tmp_path / "quiz.jsonl", row)
    assert "both 'answer' and 'label' could be the gold column" in refusal(path)
    assert load_benchmark(f"{path}?gold=label").items[0].gold == 1
    path = write(tmp_path / "quiz.jsonl", row, gold=1)
    assert load_benchmark(path).items[0].gold == 1


def test_constant_gold_is_refused_from_ten_rows(tmp_path):
    rows = [{**GOOD, "question": f"{i} + ?", "gold": 0} for i in range(10)]
    assert len(load_benchmark(write(tmp_path / "few.jsonl", *rows[:9]))) == 9
    path = write(tmp_path / "quiz.jsonl", *rows)
    message = refusal(path)
    assert message.startswith("quiz.jsonl: the correct option is number 1 in all 10 questions")
    assert "?shuffle=yes" in message
    mixed = load_benchmark(f"{path}?shuffle=yes").items
    assert {item.options[item.gold] for item in mixed} == {"3"}
    assert len({item.gold for item in mixed}) > 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "a.jsonl: holds no questions"),
        ("a.csv", b"question,A,B,gold\n", "a.csv: holds no questions"),
        ("a.json", b"", "a.json: holds no questions"),
        ("a.jsonl", b'{"question": \n', "a.jsonl, line 1: is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "a.jsonl, line 1: is not an object"),
        ("a.json", b'{"question": "x"}', "a.json: is not a list"),
        ("a.json", b'{"a": 1}\n{"a": 2}', "a.json, line 2: is not JSON"),
        ("a.json", b"[3]", "a.json, entry 1: is not an object"),
        ("a.jsonl", '{"question": "é"}'.encode("latin-1"), "a.jsonl: is not UTF-8"),
        ("a.csv", "question\né\n".encode("utf-16"), "a.csv: is not UTF-8"),
        ("a.csv", b"q,A,A\n1,2,3\n", "a.csv: column 'A' stands twice"),
        ("a.csv", b"question,A,B,gold\nwhat, when,x,y,A\n", "a.csv, row 2: has 5 cells for 4"),
        ("a.csv", b'question,A,B,gold\n"what,x,y,A\n', "a.csv, row 2: cannot be read"),
        ("a.csv", b"question,A,B,C,gold\nwhat,x,,z,A\n", "a.csv, row 2: option 2 is empty"),
        ("a.csv", b"question,A,B,gold\nwhat,x\n", "a.csv, row 2: needs at least two options"),
        ("a.csv", b'question,options,gold\nwhat,"x;y",0\n', "a.csv, row 2: options 'x;y' are not"),
    ],
)
def test_broken_files_are_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert refusal(tmp_path / name).startswith(message)


def test_missing_file_and_unknown_ending(tmp_path):
    assert refusal(tmp_path / "a.csv").startswith("a.csv: no such file")
    (tmp_path / "a.xlsx").write_bytes(b"")
    assert refusal(tmp_path / "a.xlsx").startswith("a.xlsx: cannot tell the format")
