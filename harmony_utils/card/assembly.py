"""The card: everything that a decision may rest on, put together from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harmony_utils.card.changes import Change, changes_against
from harmony_utils.card.decision import Decision, load_decision
from harmony_utils.card.evidence import Evidence, run_evidence, subject_evidence
from harmony_utils.card.failures import Failures, find_failures
from harmony_utils.card.judging import (
    Conclusion,
    Judgement,
    check_decision,
    conclusion,
    judge,
    matching,
)
from harmony_utils.card.limits import (
    ALWAYS,
    coverage,
    coverage_limits,
    deployed_differences,
    uneven_settings,
)
from harmony_utils.card.outside import difficulty_evidence, framing_evidence, missing_outside
from harmony_utils.card.tested import Tested, load_tested
from harmony_utils.files import file_hash, json_values
from harmony_utils.settings import CardSettings

MULTIPLICITY = (
    "Each criterion has its own interval; no correction was made for their number. *Supported* "
    "needs all of them, so that a false one is no likelier with more criteria; a false *not "
    "supported* is."
)
"""Said wherever several criteria are judged."""


@dataclass(frozen=True, eq=False)
class Card:
    """Evidence, what was asked of it, and its limits, in one place.

    Parameters
    ----------
    decision : Decision or None
        What is to be decided; without one there is evidence alone.
    runs : list of Tested
        What was tested, by benchmark and model.
    evidence : list of Evidence
        Everything that was measured and everything that was not.
    judgements : list of Judgement
        Each criterion on each model and benchmark it is about.
    failures : list of Failures
        One for each run.
    changes : list of Change
        Against the baseline.
    limits : list of str
        Those that were declared, then those that were found.
    unfinished : list of str
        Run folders without predictions.
    left_out : list of str
        Comparisons with the baseline that could not be made, or not on all questions.
    files : dict of str to str
        SHA-256 of the decision and of further evidence.
    settings : CardSettings
        How the card was computed.
    """

    decision: Decision | None
    runs: list[Tested]
    evidence: list[Evidence]
    judgements: list[Judgement]
    failures: list[Failures]
    changes: list[Change]
    limits: list[str]
    unfinished: list[str]
    left_out: list[str]
    files: dict[str, str]
    settings: CardSettings

    @property
    def conclusion(self) -> Conclusion:
        """What the criteria together say."""
        return conclusion(self.judgements)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; what is not known is None."""
        found = {
            "decision": self.decision.model_dump() if self.decision else None,
            "conclusion": self.conclusion,
            "multiplicity": MULTIPLICITY if len(self.judgements) > 1 else None,
            "tested": [
                {"model": run.model, "benchmark": run.benchmark, "configuration": run.configuration}
                for run in self.runs
            ],
            "evidence": [entry.to_dict() for entry in self.evidence if entry.value is not None],
            "not_measured": [
                {
                    name: getattr(entry, name)
                    for name in ("measure", "model", "benchmark", "subject", "missing", "command")
                }
                for entry in self.evidence
                if entry.value is None
            ],
            "criteria": [judgement.to_dict() for judgement in self.judgements],
            "failures": [entry.to_dict() for entry in self.failures],
            "changes": [change.to_dict() for change in self.changes],
            "coverage": [coverage(run) for run in self.runs],
            "unfinished": self.unfinished,
            "left_out": self.left_out,
            "limits": self.limits,
            "provenance": self.provenance(),
        }
        return json_values(found)

    def provenance(self) -> dict[str, Any]:
        """Return what is needed to find or make the same evidence again."""
        from harmony_utils import __version__

        return {
            "harmony_utils": __version__,
            "settings": self.settings.model_dump(),
            "files": self.files,
            "runs": [_run_provenance(run) for run in self.runs],
        }


def _run_provenance(run: Tested) -> dict[str, Any]:
    audit, steps = run.record.get("audit", {}), run.record.get("steps", {})
    seeds = {
        name: step["settings"]["random_state"]
        for name, step in steps.items()
        if "random_state" in step.get("settings", {}) and name in ("clustering", "harmony")
    }
    return {
        "model": run.model,
        "benchmark": run.benchmark,
        "place": run.place,
        "files": run.hashes,
        "benchmark_fingerprint": audit.get("benchmark", {}).get("fingerprint"),
        "git_commit": audit.get("git_commit"),
        "versions": steps.get("predictions", {}).get("versions", {}),
        "log": run.predictions.meta.get("log"),
        "seeds": seeds,
    }


def make_card(
    folders: Sequence[str | Path],
    *,
    decision: Decision | str | Path | None = None,
    difficulty: str | Path | None = None,
    framing: str | Path | None = None,
    settings: CardSettings | None = None,
) -> Card:
    """Put a card together.

    Parameters
    ----------
    folders : sequence of path
        Finished run folders, or folders above them: any number of models and benchmarks.
    decision : Decision or path, optional
        What is to be decided; see :func:`~harmony_utils.card.load_decision`.
    difficulty : path, optional
        Folder of ``harmony difficulty``.
    framing : path, optional
        A ``framing.json``.
    settings : CardSettings, optional
        Bins, coverage and how much is listed.

    Returns
    -------
    Card
        The same for the same files, in whatever order the folders are named.

    Raises
    ------
    InputError
        For a file that cannot be read, or that names what was not tested.
    RefusedError
        If a result in a run folder does not belong to its answers.
    """
    settings = settings or CardSettings()
    files: dict[str, str] = {}
    if decision is not None and not isinstance(decision, Decision):
        path, decision = Path(decision), load_decision(decision)
        files["decision"] = file_hash(path)
    runs, unfinished = load_tested(folders)
    evidence = [entry for run in runs for entry in run_evidence(run, settings)]
    evidence += missing_outside(difficulty is not None, framing is not None, runs)
    if difficulty is not None:
        evidence += difficulty_evidence(difficulty, runs)
        files["difficulty"] = file_hash(Path(difficulty) / "difficulty.json")
    if framing is not None:
        evidence += framing_evidence(framing, runs, confidence=settings.confidence)
        files["framing"] = file_hash(Path(framing))
    judgements: list[Judgement] = []
    changes: list[Change] = []
    left_out: list[str] = []
    if decision is not None:
        _check(decision, runs)
        evidence += _named_subjects(decision, runs, settings)
        judgements = _judged(decision, evidence)
        if decision.baseline:
            changes, left_out = changes_against(
                runs, decision.baseline, confidence=settings.confidence
            )
    return Card(
        decision=decision,
        runs=runs,
        evidence=evidence,
        judgements=judgements,
        failures=[find_failures(run, settings) for run in runs],
        changes=changes,
        limits=_limits(decision, runs, unfinished),
        unfinished=unfinished,
        left_out=left_out,
        files=files,
        settings=settings,
    )


def _check(decision: Decision, runs: Sequence[Tested]) -> None:
    check_decision(
        decision,
        models=[run.model for run in runs],
        benchmarks=[run.benchmark for run in runs],
        subjects=[name for run in runs for name in run.subjects if name is not None],
        pairs=[(run.model, run.benchmark) for run in runs],
    )


def _judged(decision: Decision, evidence: Sequence[Evidence]) -> list[Judgement]:
    return [
        judge(criterion, entry)
        for criterion in decision.criteria
        for entry in matching(criterion, evidence, baseline=decision.baseline)
    ]


def _named_subjects(
    decision: Decision, runs: Sequence[Tested], settings: CardSettings
) -> list[Evidence]:
    """Return the accuracy in every subject that a criterion names, where its benchmark has it."""
    found = []
    for subject in sorted({c.subject for c in decision.criteria if c.subject}):
        having = {run.benchmark for run in runs if subject in set(run.subjects)}
        found += [
            subject_evidence(run, subject, settings) for run in runs if run.benchmark in having
        ]
    return found


def _limits(
    decision: Decision | None, runs: Sequence[Tested], unfinished: Sequence[str]
) -> list[str]:
    limits = list(decision.limits) if decision else []
    if decision is not None:
        limits += deployed_differences(decision.deployed, runs)
    limits += uneven_settings(runs)
    limits += coverage_limits([coverage(run) for run in runs])
    limits += [f"{place}: not finished, so it is not part of the evidence" for place in unfinished]
    return [*limits, *ALWAYS]
