"""Filling a gap: propose, predict, gate, measure, accept, until it is closed or the budget is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from harmony_utils.difficulty.coverage import SOFT_SHARE, Gap
from harmony_utils.difficulty.curves import LIMIT, MIN_SLOPE, DifficultyFit
from harmony_utils.difficulty.responses import Responses
from harmony_utils.errors import InputError
from harmony_utils.filling.candidates import Band, Candidate, Generator, GeneratorError
from harmony_utils.filling.gates import (
    DuplicateGate,
    Measured,
    OptionsOnly,
    Thresholds,
    check_format,
    check_key,
    check_measured,
)
from harmony_utils.filling.linking import measure
from harmony_utils.filling.outcomes import Budget, Filling, Outcome
from harmony_utils.filling.panels import Panel
from harmony_utils.filling.predictor import (
    LEAST_ITEMS,
    DifficultyPredictor,
    fit_predictor,
    item_features,
)
from harmony_utils.filling.reader import Reader
from harmony_utils.filling.texts import TextSpace
from harmony_utils.items import Benchmark, Item

_LEAST_TO_LEARN = 8


def fill_gaps(
    benchmark: Benchmark,
    responses: Responses,
    fit: DifficultyFit,
    gaps: Sequence[Gap | tuple[float, float, int]],
    panel: Panel,
    *,
    generator: Generator,
    texts: TextSpace,
    reader: Reader | None = None,
    thresholds: Thresholds | None = None,
    budget: Budget | None = None,
    aimed: bool = True,
    groups: Sequence[str] | None = None,
    widest_band: float = 1.0,
    surplus: float = 1.5,
    random_state: int = 0,
) -> Filling:
    """Propose, predict, gate, measure and accept questions for gaps.

    Parameters
    ----------
    benchmark : Benchmark
        The originals; their ids are those of ``responses``.
    responses : Responses
        Answers of the panel's models to them.
    fit : DifficultyFit
        Of ``responses``; stays fixed.
    gaps : sequence of Gap or (low, high, n_wanted)
        From :func:`~harmony_utils.difficulty.find_gaps`, of which only those whose verdict is
        ``gap`` make sense; or bands of one's own.
    panel : callable
        Answers new items, see :mod:`harmony_utils.filling.panels`.
    generator : Generator
        Who proposes.
    texts : TextSpace
        Similarities, for features and gates.
    reader : Reader, optional
        A model whose likelihoods help to guess difficulties before anybody answers.
    thresholds : Thresholds, optional
        Where gates close.
    budget : Budget, optional
        When to stop.
    aimed : bool
        Whether sources and candidates are chosen by expected difficulty; if not, at random.
    groups : sequence of str, optional
        Of the originals, kept together when the predictor is validated.
    widest_band : float
        Gaps wider than this, in logits, are cut into equal bands that are filled one by one. A
        panel whose standard errors are large needs wide bands.
    surplus : float
        Items wanted in each band of a gap, over those that just lift it to a quarter of what the
        target wants: at 1 a gap stays open wherever they do not lie evenly.
    random_state : int
        Seed; the same seed gives the same candidates and outcomes.

    Returns
    -------
    Filling
        With every rejected candidate and its reason. A generator that breaks off ends the loop;
        what was found until then is kept, and ``stopped`` says why.

    Raises
    ------
    InputError
        If items and answers do not belong together, or the panel's rows are not the fit's models.
    """
    state = _Loop(
        benchmark, responses, fit, panel, generator, texts, reader,
        thresholds or Thresholds(), budget or Budget(), aimed, groups, random_state,
    )  # fmt: skip
    inside = np.clip(fit.difficulty[fit.usable], -LIMIT, LIMIT)
    bands = [band for gap in gaps for band in _cut(gap, widest_band, inside, surplus)]
    stopped = [state.fill(k, (low, high), n) for k, (low, high, n) in enumerate(bands)]
    return Filling(
        tuple((low, high) for low, high, _ in bands),
        tuple(n for *_, n in bands),
        tuple(state.outcomes),
        tuple(stopped),
        state.predictor,
    )


def _cut(
    gap: Gap | tuple[float, float, int],
    widest: float,
    difficulties: np.ndarray,
    surplus: float = 1.0,
) -> list[tuple[float, float, int]]:
    """Cut a gap into equal bands, each with the items it lacks of a quarter of what is wanted.

    The target is taken as even within a gap; of bands of one's own the items are spread
    evenly.
    """
    low, high = (gap.low, gap.high) if isinstance(gap, Gap) else gap[:2]
    if not low < high or widest <= 0:
        raise InputError(f"gap {low:g} to {high:g}: the first must be smaller, the width positive")
    parts = max(int(np.ceil((high - low) / widest - 1e-9)), 1)
    edges = np.linspace(low, high, parts + 1)
    if not isinstance(gap, Gap):
        counts = [gap[2] // parts + (k < gap[2] % parts) for k in range(parts)]
    else:
        share = surplus * SOFT_SHARE * gap.target_share / parts
        held = np.histogram(difficulties, edges)[0]
        lacking = share * (len(difficulties) + gap.n_to_close) - held
        counts = np.maximum(np.ceil(lacking - 1e-9), 0).astype(int).tolist()
    return [(float(edges[k]), float(edges[k + 1]), int(counts[k])) for k in range(parts)]


class _Loop:
    """Where filling stands."""

    def __init__(
        self,
        benchmark: Benchmark,
        responses: Responses,
        fit: DifficultyFit,
        panel: Panel,
        generator: Generator,
        texts: TextSpace,
        reader: Reader | None,
        thresholds: Thresholds,
        budget: Budget,
        aimed: bool,
        groups: Sequence[str] | None,
        random_state: int,
    ) -> None:
        place = {name: number for number, name in enumerate(fit.items)}
        if unknown := [item.id for item in benchmark.items if item.id not in place]:
            raise InputError(f"item {unknown[0]!r} has no fitted difficulty; fit the same items")
        if tuple(responses.models) != tuple(fit.models) or responses.items != fit.items:
            raise InputError("responses and fit are of other models or items; fit these responses")
        benchmark.require_options("filling gaps")
        self.responses, self.fit, self.panel = responses, fit, panel
        self.generator, self.texts, self.reader = generator, texts, reader
        self.thresholds, self.budget, self.aimed = thresholds, budget, aimed
        self.rng = np.random.default_rng(random_state)
        rows = np.array([place[item.id] for item in benchmark.items])
        usable = fit.usable[rows]
        self.items: list[Item] = [
            x for x, good in zip(benchmark.items, usable, strict=True) if good
        ]
        self.difficulty = np.clip(fit.difficulty[rows][usable], -4, 4)
        self.duplicates = DuplicateGate(benchmark.items, threshold=thresholds.duplicate)
        self.options_only = OptionsOnly(benchmark.items, texts)
        self.outcomes: list[Outcome] = []
        self.seen: set[str] = set()
        self.used: dict[str, int] = {}
        self.n_measured = 0
        self.predictor: DifficultyPredictor | None = None
        self.learned: list[tuple[float, float, float]] = []
        if len(self.items) >= LEAST_ITEMS:
            kept = None if groups is None else [g for g, u in zip(groups, usable, strict=True) if u]
            features = self._features(self.items)
            self.predictor = fit_predictor(features, self.difficulty, groups=kept)
            self.rest = self.difficulty - self.predictor.predict(features)
        else:
            self.rest = self.difficulty - self.difficulty.mean()
        self.numbers = {item.id: number for number, item in enumerate(self.items)}

    def fill(self, gap: int, band: Band, wanted: int) -> str:
        """Run rounds for one gap; return why they ended."""
        accepted, idle = 0, 0
        for round_ in range(self.budget.rounds):
            if accepted >= wanted:
                return f"filled: {accepted} of {wanted} items accepted"
            if self.n_measured >= self.budget.max_measured:
                return f"budget: {self.n_measured} candidates measured, {accepted} accepted"
            proposed, broken = self._propose(band)
            passed = self._gated(proposed, gap, round_)
            new = self._measured(passed, gap, round_, band, wanted - accepted)
            accepted += new
            if broken:
                return f"generator: {broken}"
            idle = 0 if new else idle + 1
            if idle >= self.budget.patience and accepted < wanted:
                return f"no progress: {idle} rounds without an item, {accepted} of {wanted}"
        if accepted >= wanted:
            return f"filled: {accepted} of {wanted} items accepted"
        return f"rounds: {self.budget.rounds} done, {accepted} of {wanted} items accepted"

    def _propose(self, band: Band) -> tuple[list[Candidate], str]:
        """Ask for candidates, most from sources near the band; also say what broke off."""
        middle = (band[0] + band[1]) / 2
        weights = np.exp(-np.abs(self.difficulty - middle)) if self.aimed else None
        free = np.array(
            [self.used.get(x.id, 0) < self.thresholds.max_per_source for x in self.items]
        )
        if not free.any():
            return [], ""
        share = (np.ones(len(self.items)) if weights is None else weights) * free
        n_sources = min(max(self.budget.proposals // 3, 1), int(free.sum()))
        chosen = self.rng.choice(len(self.items), n_sources, replace=False, p=share / share.sum())
        found: list[Candidate] = []
        broken = ""
        for number in chosen.tolist():
            try:
                found += self.generator.propose(self.items[number], band, self.rng, 3)
            except GeneratorError as error:
                broken = str(error)
                break
        new = [c for c in found if c.id not in self.seen]
        self.seen |= {c.id for c in new}
        return list({c.id: c for c in new}.values()), broken

    def _gated(self, proposed: list[Candidate], gap: int, round_: int) -> list[Candidate]:
        """Return what passes the gates before anybody answers; record the others."""
        passed = []
        for candidate in proposed:
            gate, reason = self._reason(candidate)
            if reason:
                self.outcomes.append(Outcome(candidate, gap, round_, "rejected", gate, reason))
            else:
                self.duplicates.keep(candidate)
                passed.append(candidate)
        return passed

    def _reason(self, candidate: Candidate) -> tuple[str, str]:
        if reason := check_format(candidate):
            return "format", reason
        if reason := check_key(candidate):
            return "key", reason
        if reason := self.duplicates.check(candidate):
            return "duplicate", reason
        multiple = self.thresholds.options_only
        return "options only", self.options_only.check(candidate, multiple=multiple)

    def _features(self, items: Sequence[Item]) -> np.ndarray:
        margins = self.reader.margins(items) if self.reader else None
        return item_features(items, self.texts, margins=margins)

    def _expected(
        self, candidates: list[Candidate]
    ) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Return expected difficulties and their spread, and the two parts they are made of.

        The parts are what the text says, and what the source is harder than its text says.

        A rewriting keeps part of what its source is harder or easier than its text says; how much
        is learned from the candidates measured so far, and is one half before.
        """
        rest = np.array([self.rest[self.numbers[c.source]] for c in candidates])
        text = (
            self.predictor.predict(self._features([c.item() for c in candidates]))
            if self.predictor
            else np.full(len(candidates), self.difficulty.mean())
        )
        share, centre = 0.5, 0.0
        spread = self.predictor.rmse if self.predictor else max(float(self.rest.std()), 0.3)
        if len(self.learned) >= _LEAST_TO_LEARN:
            past = np.array(self.learned)
            off = past[:, 2] - past[:, 0]
            inherited = past[:, 1] - past[:, 1].mean()
            # four pseudo-observations at one half steady the slope
            prior = 4 * max(float(self.rest.var()), 1e-6)
            share = float((inherited @ off + 0.5 * prior) / (inherited @ inherited + prior))
            share = min(max(share, 0.0), 1.0)
            centre = float((off - share * past[:, 1]).mean())
            spread = max(float((off - share * past[:, 1] - centre).std()), 0.2)
        return text + share * rest + centre, spread, text, rest

    def _measured(
        self, passed: list[Candidate], gap: int, round_: int, band: Band, wanted: int
    ) -> int:
        """Measure the most promising candidates; record all; return how many are accepted."""
        if not passed:
            return 0
        expected, spread, text, rest = self._expected(passed)
        chance = norm.cdf((band[1] - expected) / spread) - norm.cdf((band[0] - expected) / spread)
        order = np.argsort(-chance, kind="stable")
        if not self.aimed:
            order = self.rng.permutation(len(passed))
        n = min(self.budget.measured, self.budget.max_measured - self.n_measured)
        chosen = order[:n].tolist()
        asked = [passed[i] for i in chosen]
        answers = np.asarray(self.panel([c.item() for c in asked]), dtype=float)
        found = measure(self.fit, self.responses, answers, asked)
        self.n_measured += len(asked)
        results: dict[int, Outcome] = {}
        accepted = 0
        by_chance = sorted(range(len(asked)), key=lambda k: (-found[k].p_in_band, k))
        for k in by_chance:
            i = chosen[k]
            gate, reason = self._judge(asked[k], found[k], wanted - accepted)
            status = "rejected" if reason else "accepted"
            if status == "accepted":
                accepted += 1
                self.used[asked[k].source] = self.used.get(asked[k].source, 0) + 1
            if np.isfinite(found[k].difficulty) and found[k].slope > MIN_SLOPE:
                self.learned.append((text[i], rest[i], float(np.clip(found[k].difficulty, -4, 4))))
            results[i] = Outcome(
                asked[k], gap, round_, status, gate, reason, float(expected[i]),
                float(chance[i]), found[k], tuple(answers[:, k].tolist()),
            )  # fmt: skip
        for i, candidate in enumerate(passed):
            self.outcomes.append(
                results.get(i)
                or Outcome(
                    candidate,
                    gap,
                    round_,
                    "not measured",
                    predicted=float(expected[i]),
                    p_predicted=float(chance[i]),
                )
            )
        return accepted

    def _judge(self, candidate: Candidate, found: Measured, wanted: int) -> tuple[str, str]:
        if not found.n_answers:
            return "difficulty", "the panel gave no answer"
        if reason := check_measured(found, candidate, in_band=self.thresholds.in_band):
            return "difficulty", reason
        if self.used.get(candidate.source, 0) >= self.thresholds.max_per_source:
            return "source", f"another rewriting of {candidate.source} is accepted already"
        if wanted < 1:
            return "enough", "enough items are accepted already"
        return "", ""
