"""Every constant of the method, in one configuration class.

Notebooks, the command line and other callers all validate through :class:`AuditSettings`.
Unknown names and wrong types are refused. The texts given here are the ones shown to people.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harmony_utils.errors import InputError

Variant = Literal["gold-mean", "gold-geometric", "options", "prompt-end"]
GenerationVariant = Literal["generated-mean", "generated-geometric", "prompt-end"]
StopRule = Literal["auto", "line", "paragraph"]
Normalisation = Literal["sum", "char", "byte", "token"]
AssignLabels = Literal["kmeans", "cluster_qr", "discretize"]
Wording = Literal["question", "short", "instruction"]
OptionOrder = Literal["given", "reversed", "shuffled"]
OptionSymbols = Literal["letters", "numbers"]


ALL_PAIRS_ITEMS = 20_000
"""Up to this many questions something of every pair is held in memory, 1.6 GB for each matrix."""

LANDMARKS = 2000
"""Questions that stand for all where there are too many for all pairs: our choice, measured by
``benchmarks/large_affinity.py``."""


def execution_only(default: Any, description: str, **constraints: Any) -> Any:
    """Declare a field that changes how fast a stage runs, not what it finds."""
    return Field(
        default, description=description, json_schema_extra={"affects_result": False}, **constraints
    )


def added_later(default: Any, description: str, **constraints: Any) -> Any:
    """Declare a field whose default does what was done before there was the field.

    At its default it is no part of the identity, so runs finished without it stay valid.
    """
    return Field(
        default, description=description, json_schema_extra={"neutral": default}, **constraints
    )


class StageSettings(BaseModel):
    """Base of the settings of one stage."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=False, validate_default=True, allow_inf_nan=False
    )

    def identity(self) -> dict[str, Any]:
        """Return the values that decide the result, for the key of a finished stage."""
        dumped = self.model_dump(mode="json")
        about = {
            name: field.json_schema_extra or {} for name, field in type(self).model_fields.items()
        }
        return {
            name: dumped[name]
            for name, extra in about.items()
            if extra.get("affects_result", True)
            and not ("neutral" in extra and dumped[name] == extra["neutral"])
        }

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_for_switch(cls, value: Any, info: Any) -> Any:
        """Refuse booleans where numbers are meant: ``True`` would pass as 1."""
        annotation = cls.model_fields[info.field_name].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError(f"expected {annotation}, not true/false")
        return value


class ModelSettings(StageSettings):
    """How the model runs, however it is asked."""

    chat_template: bool = Field(False, description="wrap the prompt in the model's chat template")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="number type the model computes in"
    )
    device: str = execution_only("auto", "auto, cpu, cuda, cuda:1 or mps")
    batch_size: int = execution_only(8, "questions per forward pass", ge=1)
    padding_side: Literal["left", "right"] = execution_only("left", "side of the padding")
    chunk_size: int = execution_only(64, "questions finished and saved together", ge=1)
    trust_remote_code: bool = Field(
        False, description="run Python code that comes with a hub model; off unless you trust it"
    )


class PredictionsSettings(ModelSettings):
    """How the model is asked and what is kept of its answer."""

    variant: Variant = Field(
        "gold-mean",
        description="averaged distribution: gold-mean, gold-geometric, options or prompt-end",
    )
    format: Literal["cloze", "letter"] = Field(
        "cloze", description="cloze scores the text of each option, letter scores A, B, C …"
    )
    normalisation: Normalisation = Field(
        "sum", description="length by which log-likelihoods are divided: sum, char, byte or token"
    )
    few_shot: int = Field(0, ge=0, le=64, description="solved examples put before each question")
    wording: Wording = added_later(
        "question",
        "what stands around a question: question writes Question: and Answer:, short writes Q: "
        "and A:, instruction adds a line that says what to do",
    )
    option_order: OptionOrder = added_later(
        "given", "order in which format=letter lists the options: given, reversed or shuffled"
    )
    option_symbols: OptionSymbols = added_later(
        "letters", "what format=letter puts before an option and scores: letters or numbers"
    )
    share_prefix: bool = execution_only(True, "run a prompt once for all of its options")

    @model_validator(mode="after")
    def _options_are_listed(self) -> PredictionsSettings:
        for name in ("option_order", "option_symbols"):
            default = type(self).model_fields[name].default
            if self.format == "cloze" and getattr(self, name) != default:
                raise ValueError(f"{name} needs format=letter: cloze lists no options")
        return self


class GenerationSettings(ModelSettings):
    """How open-ended questions are asked: the model writes its answer, greedily."""

    variant: GenerationVariant = Field(
        "generated-mean",
        description="averaged distribution: generated-mean, generated-geometric or prompt-end",
    )
    few_shot: int = Field(5, ge=0, le=64, description="solved examples put before each question")
    max_new_tokens: int = Field(
        0, ge=0, le=4096, description="longest answer in tokens; 0: 32 for a text, 256 for a number"
    )
    stop: StopRule = Field(
        "auto",
        description="end of an answer: line, paragraph, or auto, line for a text, "
        "paragraph for a number",
    )


class AffinitySettings(StageSettings):
    """From distributions to predictive similarity."""

    temperature: float | Literal["median"] = Field(
        "median",
        description="tau; median sets the median off-diagonal similarity to 0.5",
    )
    floor: float = Field(
        1e-10, gt=0, lt=1e-2, description="smallest probability before renormalising"
    )
    neighbours: int = added_later(
        0,
        "most similar questions that each one stays linked to; 0 cuts no link",
        ge=0,
    )
    all_pairs_up_to: int = added_later(
        ALL_PAIRS_ITEMS,
        "up to this many questions all pairs are compared and kept; of more, each question with "
        "the landmarks, or, with neighbours, all pairs to keep the most similar ones",
        ge=0,
    )
    landmarks: int = added_later(
        LANDMARKS,
        "of more questions than all_pairs_up_to, so many stand for all: each question is compared "
        "with these",
        ge=3,
    )
    random_state: int = added_later(0, "seed of the landmarks, or of a sample of pairs", ge=0)

    def reduced_to(self, n_items: int) -> dict[str, int]:
        """Return what stands for all pairs of so many questions; empty where all are kept.

        Examples
        --------
        >>> settings = AffinitySettings(landmarks=500)
        >>> settings.reduced_to(20_000), settings.reduced_to(30_000)
        ({}, {'landmarks': 500, 'random_state': 0})
        >>> AffinitySettings(neighbours=5).reduced_to(30_000)
        {'neighbours': 5, 'random_state': 0}
        """
        if n_items <= self.all_pairs_up_to:
            return {}
        if self.neighbours:
            return {"neighbours": self.neighbours, "random_state": self.random_state}
        return {"landmarks": min(self.landmarks, n_items), "random_state": self.random_state}

    @field_validator("temperature")
    @classmethod
    def _positive(cls, value: float | str) -> float | str:
        if value != "median" and not 0 < float(value) < float("inf"):
            raise ValueError("a temperature must be a positive number or 'median'")
        return value


class ClusteringSettings(StageSettings):
    """From the affinity to subdomains."""

    n_clusters: int = Field(
        0, ge=0, description="number of subdomains; 0 lets the selection choose"
    )
    min_clusters: int = Field(2, ge=2, description="smallest number of subdomains tried")
    max_clusters: int = Field(20, ge=2, le=200, description="largest number of subdomains tried")
    selection: Literal["silhouette", "eigengap", "stability"] = Field(
        "silhouette", description="how the number is chosen: silhouette, eigengap or stability"
    )
    silhouette_distance: Literal["affinity", "embedding"] = Field(
        "affinity",
        description="silhouettes on 1 - similarity, or in the space of the eigenvectors",
    )
    assign_labels: AssignLabels = added_later(
        "kmeans", "from eigenvectors to subdomains: kmeans, cluster_qr or discretize"
    )
    n_init: int = Field(10, ge=1, description="k-means restarts")
    n_stability: int = Field(10, ge=2, description="seeds compared to report stability")
    random_state: int = Field(0, ge=0, description="seed")

    @field_validator("max_clusters")
    @classmethod
    def _not_below(cls, value: int, info: Any) -> int:
        smallest = info.data.get("min_clusters", 2)
        if value < smallest:
            raise ValueError(f"it lies below clustering.min_clusters, {smallest}")
        return value


class HarmonySettings(StageSettings):
    """From correctness and subdomains to HARMONY."""

    bandwidth: float = Field(0.1, gt=0, description="b, the width of the kernel in accuracy")
    n_null: int = Field(2000, ge=100, description="label shuffles behind the null distribution")
    n_bootstrap: int = Field(2000, ge=100, description="resamples of items behind the intervals")
    recluster: int = Field(
        0, ge=0, description="halves of the questions clustered anew for a second interval, 0: none"
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="coverage of every interval")
    random_state: int = Field(0, ge=0, description="seed")

    @field_validator("recluster")
    @classmethod
    def _enough_halves(cls, value: int) -> int:
        if 0 < value < 20:
            raise ValueError("an interval needs at least 20 halves; 0 leaves it out")
        return value


class RebalancingSettings(StageSettings):
    """Pruning over-represented subdomains."""

    shares: list[float] = Field(
        [0.05, 0.1, 0.2, 0.3, 0.4, 0.5], description="shares of questions removed, in rising order"
    )
    n_random: int = Field(200, ge=20, description="draws of each kind of pruning at each share")
    n_bootstrap: int = Field(2000, ge=100, description="resamples behind HARMONY's intervals")
    duplicates: Literal["predictive", "words", "sentences"] = Field(
        "predictive",
        description="similarity behind near-duplicates: predictive, words or sentences",
    )
    random_state: int = Field(0, ge=0, description="seed")

    @field_validator("shares")
    @classmethod
    def _ladder(cls, value: list[float]) -> list[float]:
        if not value or any(not 0 < share < 1 for share in value) or sorted(set(value)) != value:
            raise ValueError("shares must rise strictly and lie between 0 and 1")
        return value


class ScalingSettings(StageSettings):
    """Trends over the runs that exist."""

    axis: Literal["auto", "parameters", "tokens", "layer"] = Field(
        "auto", description="what grows: model parameters, pretraining tokens or the exit layer"
    )
    n_bootstrap: int = Field(2000, ge=100, description="resamples of runs behind the interval")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="coverage of every interval")
    random_state: int = Field(0, ge=0, description="seed")


class SensitivitySettings(StageSettings):
    """Choices that another analyst could have made."""

    variants: list[Variant] = Field(list(get_args(Variant)), description="averaged distributions")
    temperature_factors: list[float] = Field(
        [0.25, 0.5, 1.0, 2.0, 4.0], description="multiples of the run's temperature"
    )
    neighbours: list[int] = Field(
        [0, 10], description="links of each question in the affinity; 0 keeps all pairs"
    )
    n_clusters: list[int] = Field(
        [0, 2, 4, 8], description="numbers of subdomains; 0 lets the selection choose"
    )
    assign_labels: list[AssignLabels] = Field(
        list(get_args(AssignLabels)), description="ways from eigenvectors to subdomains"
    )
    bandwidths: list[float] = Field(
        [0.05, 0.1, 0.2], description="widths of the kernel in accuracy"
    )
    seeds: list[int] = Field([0, 1], description="seeds of the label assignment")
    n_specifications: int = Field(
        300, ge=0, description="combinations computed, drawn at random; 0 computes all"
    )
    random_state: int = Field(0, ge=0, description="seed of the draw of combinations")

    @field_validator("variants", "assign_labels", "seeds", "neighbours", "n_clusters")
    @classmethod
    def _listed(cls, value: list[Any]) -> list[Any]:
        if not value or len(set(value)) != len(value):
            raise ValueError("give at least one value, and none twice")
        if any(isinstance(one, int) and one < 0 for one in value):
            raise ValueError("give no negative number")
        return value

    @field_validator("temperature_factors", "bandwidths")
    @classmethod
    def _positive(cls, value: list[float]) -> list[float]:
        if not value or len(set(value)) != len(value):
            raise ValueError("give at least one value, and none twice")
        if not all(0 < one < float("inf") for one in value):
            raise ValueError("give positive numbers")
        return value

    @field_validator("n_clusters")
    @classmethod
    def _at_least_two(cls, value: list[int]) -> list[int]:
        if 1 in value:
            raise ValueError("one subdomain has no HARMONY; give 0 to choose, or at least 2")
        return value


class PlaneSettings(StageSettings):
    """Many respondents on many benchmarks; no part of an audit."""

    partition: Literal["shared", "embeddings", "own", "subjects"] = Field(
        "shared", description="labels: shared by the models, embeddings, each model's own, subjects"
    )
    bandwidth: float = Field(0.1, gt=0, description="b, the width of the kernel in accuracy")
    n_null: int = Field(
        1000,
        ge=100,
        description="label shuffles behind each verdict, more where many are corrected",
    )
    n_bootstrap: int = Field(500, ge=100, description="resamples of items behind the bands")
    n_matched: int = Field(100, ge=10, description="questions at which benchmarks are compared")
    n_matched_draws: int = Field(200, ge=20, description="draws of that many questions")
    min_respondents: int = Field(3, ge=3, description="respondents a benchmark must have")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="coverage of every band")
    random_state: int = Field(0, ge=0, description="seed")


class CardSettings(StageSettings):
    """What a card computes itself; no part of an audit."""

    n_bins: int = Field(10, ge=1, description="bins of confidence, of equally many questions")
    n_lowest: int = Field(3, ge=1, description="lowest subdomains and subjects that are listed")
    n_questions: int = Field(5, ge=0, description="questions answered wrongly that are listed")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="coverage of each interval")


class AuditSettings(StageSettings):
    """All settings of one audit, a section per stage."""

    predictions: PredictionsSettings = PredictionsSettings()
    generation: GenerationSettings = GenerationSettings()
    affinity: AffinitySettings = AffinitySettings()
    clustering: ClusteringSettings = ClusteringSettings()
    harmony: HarmonySettings = HarmonySettings()
    rebalancing: RebalancingSettings = RebalancingSettings()
    scaling: ScalingSettings = ScalingSettings()
    sensitivity: SensitivitySettings = SensitivitySettings()


SECTIONS: tuple[str, ...] = tuple(AuditSettings.model_fields)

ANALYSES: tuple[str, ...] = ("sensitivity",)
"""Sections whose analysis is no stage: `harmony audit` leaves it out, for it may take long."""

OPEN_ENDED: dict[str, str] = {"predictions": "generation"}
"""Stage → the section that takes its section's place where questions are open-ended."""

STAGES: tuple[str, ...] = tuple(
    name for name in SECTIONS if name not in (*ANALYSES, *OPEN_ENDED.values())
)

AUDIT_SECTIONS: tuple[str, ...] = tuple(name for name in SECTIONS if name not in ANALYSES)
"""Sections that an audit uses, whatever the type of its questions."""


def stage_settings(stage: str, **values: Any) -> StageSettings:
    """Validate the settings of one stage.

    Parameters
    ----------
    stage : str
        One of ``SECTIONS``.
    **values
        Settings by name; what is not given keeps its default.

    Returns
    -------
    StageSettings
        The validated section, e.g. :class:`HarmonySettings`.

    Raises
    ------
    InputError
        For an unknown stage or name, or a value of the wrong type or range.

    Examples
    --------
    >>> stage_settings("harmony", bandwidth=0.2).bandwidth
    0.2
    """
    return parse_settings({stage: values}).__getattribute__(stage)


def parse_settings(values: dict[str, dict[str, Any]]) -> AuditSettings:
    """Validate settings given by stage and name; see :func:`stage_settings` for the errors."""
    try:
        return AuditSettings.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error)) from None


def parse_assignments(
    assignments: list[str], *, sections: tuple[str, ...] = SECTIONS
) -> AuditSettings:
    """Validate command-line assignments of the form ``stage.name=value``.

    Parameters
    ----------
    assignments : list of str
        For example ``["harmony.bandwidth=0.2", "rebalancing.shares=0.1,0.2"]``.
    sections : tuple of str
        What may stand before the dot: the sections that the command uses.

    Raises
    ------
    InputError
        If one has no ``stage.name=`` before its value, is of no use here, or does not validate.
    """
    values: dict[str, dict[str, Any]] = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        stage, dot, name = path.strip().partition(".")
        if not (equals and dot and name):
            raise InputError(
                f"parameter {text!r}: write it as stage.name=value, e.g. harmony.bandwidth=0.2"
            )
        if stage in SECTIONS and stage not in sections:
            raise InputError(f"parameter {text!r}: not used here, only {', '.join(sections)}")
        listed = value.strip("[] ").split(",") if _is_list(stage, name) else value
        values.setdefault(stage, {})[name] = listed
    return parse_settings(values)


def _is_list(stage: str, name: str) -> bool:
    """Say whether a setting takes several values."""
    if stage not in SECTIONS:
        return False
    field = AuditSettings.model_fields[stage].annotation.model_fields.get(name)
    return field is not None and get_origin(field.annotation) is list


def _explain(error: ValidationError) -> str:
    """Turn the first pydantic complaint into one line: what, where, next step."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location[:2])
    if first["type"] == "extra_forbidden":
        if len(location) == 1:
            return f"unknown stage {name!r}: the stages are {', '.join(SECTIONS)}"
        known = AuditSettings.model_fields[location[0]].annotation.model_fields
        return f"unknown parameter {name!r}: {location[0]} has {', '.join(known)}"
    message = first["msg"].removeprefix("Value error, ")
    if len(location) == 1 and first["type"] == "value_error":  # of several fields together
        return f"parameter {name!r}: {message}"
    return f"parameter {name!r} cannot be {first['input']!r}: {message[0].lower()}{message[1:]}"
