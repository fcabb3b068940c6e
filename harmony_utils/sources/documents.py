"""What a dataset's row usually calls its question and options."""

from __future__ import annotations

import ast
import re
import string
from typing import Any

_QUESTIONS = (
    "question",
    "question_stem",
    "query",
    "goal",
    "sentence",
    "ctx",
    "premise",
    "prompt",
    "input",
    "problem",
    "text",
    "q",
)
_PASSAGES = ("passage", "context", "support", "article", "narrative", "story")
_PASSAGE_NAMES = frozenset(_PASSAGES)
_LISTS = ("choices", "options", "endings", "answers", "opts", "candidates")
_FIELDS = (
    ("opa", "opb", "opc", "opd"),
    ("option1", "option2"),
    ("choice1", "choice2", "choice3", "choice4"),
    ("choice1", "choice2"),
    ("sol1", "sol2"),
    ("answerA", "answerB", "answerC"),
    ("distractor1", "distractor2", "distractor3", "correct_answer"),
    ("A", "B", "C", "D"),
)


#: Where the turn of a user begins and ends in the chat templates of common models.
_USER_TURN = re.compile(
    r"<\|im_start\|>user\n?|<\|start_header_id\|>user<\|end_header_id\|>\s*"
    r"|<start_of_turn>user\n?|<\|user\|>\n?|\[INST\]\s?"
)
_TURN_END = re.compile(r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|\[/INST\]")


def last_question(prompt: str) -> str:
    """Return the question at the end of a prompt, without the few-shot examples before it.

    Parameters
    ----------
    prompt : str
        Plain text, or text under a chat template, whose last user turn is taken.

    Returns
    -------
    str
        The last block of lines, from its last ``Question:`` on if it has several.

    Examples
    --------
    >>> last_question("Question: 1 + 1?\\nAnswer: 2\\n\\nQuestion: 2 + 2?\\nAnswer:")
    'Question: 2 + 2?\\nAnswer:'
    >>> last_question("<|im_start|>user\\nWhy?<|im_end|>\\n<|im_start|>assistant\\n\\nAnswer:")
    'Why?'
    """
    turns = list(_USER_TURN.finditer(prompt))
    text = _TURN_END.split(prompt[turns[-1].end() :] if turns else prompt)[0]
    blocks = [block for block in text.strip().split("\n\n") if block.strip()]
    while len(blocks) > 1 and re.fullmatch(r"\W*(Answer|A|Response)\W*", blocks[-1].strip()):
        blocks.pop()
    last = blocks[-1].strip() if blocks else prompt
    start = last.rfind("\nQuestion:")
    return last[start + 1 :] if start >= 0 else last


#: Where an option begins that is listed by its letter, e.g. ``A. ``, ``(A) `` or ``A) ``.
_LETTERED = re.compile(r"^[ \t]*\(?([A-Z])(?:[).:][ \t]+|[\uff0e\u3001][ \t]*)(?=\S)", re.MULTILINE)

#: What ends the last of them: an empty line, or a line that asks for the answer in any language.
_LIST_END = re.compile(r"\n[ \t]*\n|\n(?=\W*(?:Answer|ANSWER)\b)|\n(?=[^\n]*[:\uff1a]\s*\Z)")


def lettered_options(prompt: str) -> tuple[str, list[str]]:
    """Split a prompt that lists its options by letter.

    Parameters
    ----------
    prompt : str
        The last list in it counts, so examples may come before.

    Returns
    -------
    question : str
        What stands before the list; the whole prompt if there is none.
    options : list of str
        Texts of the options from A on, ``[]`` if there are not at least two.

    Examples
    --------
    >>> lettered_options("Which?\\nA. red\\nB. dark\\nblue\\nAnswer:")
    ('Which?', ['red', 'dark\\nblue'])
    >>> lettered_options("哪个?\\nA、红\\nB、蓝\\n答案：")
    ('哪个?', ['红', '蓝'])
    >>> lettered_options("Which letter comes first?")
    ('Which letter comes first?', [])
    """
    marks = list(_LETTERED.finditer(prompt))
    begin = max((i for i, mark in enumerate(marks) if mark[1] == "A"), default=len(marks))
    marks = marks[begin:]
    wanted = zip(marks, string.ascii_uppercase, strict=False)
    size = next((i for i, (mark, letter) in enumerate(wanted) if mark[1] != letter), len(marks))
    if size < 2:
        return prompt, []
    ends = [mark.start() for mark in marks[1:size]] + [len(prompt)]
    texts = [prompt[mark.end() : end] for mark, end in zip(marks, ends, strict=False)]
    texts[-1] = _LIST_END.split(texts[-1])[0]
    return prompt[: marks[0].start()].strip(), [text.strip() for text in texts]


def spelled_out(question: str, options: list[str]) -> tuple[str, list[str]]:
    """Replace options that are letters by the texts that the question lists under them.

    Examples
    --------
    >>> spelled_out("Which?\\n A. red\\n B. blue\\nAnswer:", [" A", " B"])
    ('Which?', ['red', 'blue'])
    >>> spelled_out("Which?\\n A. red\\n B. blue\\nAnswer:", ["yes", "no"])[1]
    ['yes', 'no']
    """
    letters = [option.strip("(). ") for option in options]
    if letters == list(string.ascii_uppercase[: len(letters)]):
        asked, texts = lettered_options(question)
        if len(texts) == len(options):
            return asked, texts
    return question, options


def question_of(doc: dict[str, Any]) -> str:
    """Return the question of a dataset's row, ``""`` if no usual name holds one.

    Examples
    --------
    >>> question_of({"id": 3, "question": {"stem": "Why?"}})
    'Why?'
    """
    for name in _QUESTIONS:
        value = doc.get(name)
        if isinstance(value, dict):
            value = value.get("stem") or value.get("text")
        if isinstance(value, str) and value.strip():
            return value
    return ""


def passage_of(doc: dict[str, Any]) -> str:
    """Return the text that a question is about, or ``""``."""
    if _PASSAGE_NAMES.isdisjoint(doc):
        return ""
    for name in _PASSAGES:
        if isinstance(doc.get(name), str):
            return doc[name]
    return ""


def option_texts(doc: dict[str, Any]) -> list[str]:
    """Return the texts of the options of a dataset's row, ``[]`` if no usual name holds them.

    Examples
    --------
    >>> option_texts({"choices": {"label": ["A", "B"], "text": ["yes", "no"]}})
    ['yes', 'no']
    >>> option_texts({"opa": "1", "opb": "2", "opc": "3", "opd": "4"})
    ['1', '2', '3', '4']
    """
    for name in _LISTS:
        value = doc.get(name)
        if value is None and isinstance(doc.get("question"), dict):
            value = doc["question"].get(name)
        texts = _texts(value)
        if texts:
            return texts
    for names in _FIELDS:
        if all(isinstance(doc.get(name), str) for name in names):
            return [doc[name] for name in names]
    return []


def option_labels(doc: dict[str, Any]) -> list[str]:
    """Return what a dataset's row calls its options, e.g. A, B, C, or ``[]``."""
    for name in _LISTS:
        value = doc.get(name)
        if isinstance(value, dict):
            labels = value.get("label") or (list(value) if "text" not in value else [])
            return [str(label) for label in labels]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [str(v["label"]) for v in value if "label" in v]
    return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, str) and value.startswith("["):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
    if isinstance(value, dict):
        value = value.get("text") or list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    texts = [v.get("text") if isinstance(v, dict) else v for v in value]
    return [str(text) for text in texts] if len(texts) > 1 and None not in texts else []
