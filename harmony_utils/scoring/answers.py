"""Comparing a written answer with the accepted ones: exact match, token F1, last number."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harmony_utils.items import AnswerKind

METRICS: dict[AnswerKind, str] = {"text": "exact_match", "number": "flexible_extract"}
"""Name of the rule behind ``correct``, by kind of answer; it stands where a table of options has
its normalisation."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")


@dataclass(frozen=True)
class Judgement:
    """How good one written answer is.

    Parameters
    ----------
    correct : bool
        Whether it matches an accepted answer.
    f1 : float or None
        Highest token F1 over the accepted answers, 0 to 1; None for numbers, which have none.
    """

    correct: bool
    f1: float | None


def judge(written: str, answers: Sequence[str], *, kind: AnswerKind = "text") -> Judgement:
    """Compare a written answer with all accepted ones; the best match counts.

    Parameters
    ----------
    written : str
        What the model wrote. Nothing written is wrong, whatever the accepted answers are.
    answers : sequence of str
        Accepted answers.
    kind : {"text", "number"}
        ``text``: exact match after :func:`normalise_answer`, and :func:`token_f1`. ``number``:
        equality of :func:`last_number`, as the filter ``flexible-extract`` of
        lm-evaluation-harness has it; an accepted answer may hold a whole solution.

    Returns
    -------
    Judgement

    Examples
    --------
    >>> judge("The Eiffel Tower!", ["eiffel tower", "La tour Eiffel"])
    Judgement(correct=True, f1=1.0)
    >>> judge("8 - 3 = 5, so the answer is 5.", ["8 - 3 = 5\\n#### 5"], kind="number")
    Judgement(correct=True, f1=None)
    """
    if kind == "number":
        found = last_number(written)
        return Judgement(found is not None and found in map(last_number, answers), None)
    if not written.strip():
        return Judgement(False, 0.0)
    plain = normalise_answer(written)
    return Judgement(
        plain in map(normalise_answer, answers),
        max(token_f1(written, answer) for answer in answers),
    )


def normalise_answer(text: str) -> str:
    """Lower a text and drop its punctuation, English articles and surplus white space.

    Parameters
    ----------
    text : str
        An answer.

    Returns
    -------
    str
        The text in the form in which answers are compared. One of articles and punctuation alone
        is lowered only, so that it does not match every other such text.

    Notes
    -----
    The rule of the evaluation script of SQuAD 1.1 (Rajpurkar et al., EMNLP 2016), which most
    published scores on NQ-open follow; TriviaQA's own script differs in that it puts a blank in
    the place of punctuation. Typographic quotation marks are no punctuation in it.

    Examples
    --------
    >>> normalise_answer("The  Duke of  York's")
    'duke of yorks'
    """
    lowered = text.lower()
    plain = " ".join(_ARTICLES.sub(" ", lowered.translate(_PUNCTUATION)).split())
    return plain or lowered.strip()


def token_f1(written: str, answer: str) -> float:
    """Return the harmonic mean of precision and recall over words, after normalisation.

    Parameters
    ----------
    written, answer : str
        What was written and one accepted answer. The order of words does not matter, repeated
        words count as often as they stand in both.

    Returns
    -------
    float
        0 without a common word, 1 for the same words.

    Examples
    --------
    >>> token_f1("in the year 1863", "1863")
    0.5
    """
    own, accepted = normalise_answer(written).split(), normalise_answer(answer).split()
    common = (Counter(own) & Counter(accepted)).total()
    return 2 * common / (len(own) + len(accepted)) if common else 0.0


def last_number(text: str) -> str | None:
    """Return the last number of a text without ``$``, thousands commas and a final full stop.

    Parameters
    ----------
    text : str
        A solution.

    Returns
    -------
    str or None
        As it is written, so ``5`` and ``5.0`` differ; None where there is no number.

    Notes
    -----
    Both the pattern and what is ignored are those of ``flexible-extract`` in the task ``gsm8k`` of
    lm-evaluation-harness. Its pattern takes dots alone for a number as well, so an ellipsis at the
    end hides the number before it.

    Examples
    --------
    >>> last_number("He pays $1,250.")
    '1250'
    """
    found = _NUMBER.findall(text)
    if not found:
        return None
    return found[-1].replace(",", "").replace("$", "").removesuffix(".") or None
