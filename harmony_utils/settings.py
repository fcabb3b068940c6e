"""Every constant of the method, in one configuration class.

Notebooks, the command line and other callers all validate through :class:`AuditSettings`.
Unknown names and wrong types are refused. The texts given here are the ones shown to people.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harmony_utils.errors import InputError

Variant = Literal["gold-mean", "gold-geometric", "options", "prompt-end"]
Normalisation = Literal["sum", "char", "byte", "token"]


def execution_only(default: Any, description: str, **constraints: Any) -> Any:
    """Declare a field that changes how fast a stage runs, not what it finds."""
    return Field(
        default, description=description, json_schema_extra={"affects_result": False}, **constraints
    )


class StageSettings(BaseModel):
    """Base of the settings of one stage."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, validate_default=True)

    def identity(self) -> dict[str, Any]:
        """Return the values that decide the result, for the key of a finished stage."""
        dumped = self.model_dump(mode="json")
        return {
            name: dumped[name]
            for name, field in type(self).model_fields.items()
            if (field.json_schema_extra or {}).get("affects_result", True)
        }

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_for_switch(cls, value: Any, info: Any) -> Any:
        """Refuse booleans where numbers are meant: ``True`` would pass as 1."""
        annotation = cls.model_fields[info.field_name].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError(f"expected {annotation}, not true/false")
        return value


class PredictionsSettings(StageSettings):
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
    chat_template: bool = Field(False, description="wrap the prompt in the model's chat template")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="number type the model computes in"
    )
    device: str = execution_only("auto", "auto, cpu, cuda, cuda:1 or mps")
    batch_size: int = execution_only(8, "questions per forward pass", ge=1)
    padding_side: Literal["left", "right"] = execution_only("left", "side of the padding")
    share_prefix: bool = execution_only(True, "run a prompt once for all of its options")
    chunk_size: int = execution_only(64, "questions finished and saved together", ge=1)
    trust_remote_code: bool = Field(
        False, description="run Python code that comes with a hub model; off unless you trust it"
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
    n_init: int = Field(10, ge=1, description="k-means restarts")
    n_stability: int = Field(10, ge=2, description="seeds compared to report stability")
    random_state: int = Field(0, ge=0, description="seed")


class HarmonySettings(StageSettings):
    """From correctness and subdomains to HARMONY."""

    bandwidth: float = Field(0.1, gt=0, description="b, the width of the kernel in accuracy")
    n_null: int = Field(2000, ge=100, description="label shuffles behind the null distribution")
    n_bootstrap: int = Field(2000, ge=100, description="resamples of items behind the intervals")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="coverage of every interval")
    random_state: int = Field(0, ge=0, description="seed")


class RebalancingSettings(StageSettings):
    """Pruning over-represented subdomains."""

    shares: list[float] = Field(
        [0.05, 0.1, 0.2, 0.3, 0.4, 0.5], description="shares of questions removed, in rising order"
    )
    n_random: int = Field(200, ge=20, description="draws of each kind of pruning at each share")
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


class AuditSettings(StageSettings):
    """All settings of one audit, a section per stage."""

    predictions: PredictionsSettings = PredictionsSettings()
    affinity: AffinitySettings = AffinitySettings()
    clustering: ClusteringSettings = ClusteringSettings()
    harmony: HarmonySettings = HarmonySettings()
    rebalancing: RebalancingSettings = RebalancingSettings()
    scaling: ScalingSettings = ScalingSettings()


STAGES: tuple[str, ...] = tuple(AuditSettings.model_fields)


def stage_settings(stage: str, **values: Any) -> StageSettings:
    """Validate the settings of one stage.

    Parameters
    ----------
    stage : str
        One of :data:`STAGES`.
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


def parse_assignments(assignments: list[str]) -> AuditSettings:
    """Validate command-line assignments of the form ``stage.name=value``.

    Parameters
    ----------
    assignments : list of str
        For example ``["harmony.bandwidth=0.2", "rebalancing.shares=0.1,0.2"]``.

    Raises
    ------
    InputError
        If one has no ``stage.name=`` before its value, or does not validate.
    """
    values: dict[str, dict[str, Any]] = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        stage, dot, name = path.strip().partition(".")
        if not (equals and dot and name):
            raise InputError(
                f"parameter {text!r}: write it as stage.name=value, e.g. harmony.bandwidth=0.2"
            )
        is_list = name == "shares"
        values.setdefault(stage, {})[name] = value.strip("[] ").split(",") if is_list else value
    return parse_settings(values)


def _explain(error: ValidationError) -> str:
    """Turn the first pydantic complaint into one line: what, where, next step."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location[:2])
    if first["type"] == "extra_forbidden":
        if len(location) == 1:
            return f"unknown stage {name!r}: the stages are {', '.join(STAGES)}"
        known = AuditSettings.model_fields[location[0]].annotation.model_fields
        return f"unknown parameter {name!r}: {location[0]} has {', '.join(known)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"parameter {name!r} cannot be {first['input']!r}: {message[0].lower()}{message[1:]}"
