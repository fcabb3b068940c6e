"""Asking the Hugging Face hub, and giving up soon when it does not answer.

The libraries that download try again and again for minutes when the network is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from harmony_utils.errors import InputError

SECONDS_TO_ANSWER = 5.0


class HubUnreachableError(InputError):
    """The hub gave no answer, or may not be asked (``HF_HUB_OFFLINE``)."""


def ask_hub(kind: Literal["model", "dataset"], name: str, *, revision: str | None = None) -> Any:
    """Ask the hub about a repository that this user may read.

    Parameters
    ----------
    kind : {"model", "dataset"}
        Kind of repository.
    name : str
        ``owner/name``.
    revision : str, optional
        Branch, tag or commit.

    Returns
    -------
    huggingface_hub.ModelInfo or huggingface_hub.DatasetInfo
        Its ``sha`` is the commit.

    Raises
    ------
    HubUnreachableError
        If it does not answer within five seconds, or ``HF_HUB_OFFLINE`` is set.
    InputError
        If there is no such repository or revision, or it is gated and no token is there.
    """
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        HTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if constants.HF_HUB_OFFLINE:
        raise HubUnreachableError(f"{name}: HF_HUB_OFFLINE is set")
    gated = (
        f"{name}: is open only to people who accepted its terms: accept them on its page, then "
        "run `hf auth login` or set HF_TOKEN"
    )
    try:
        ask = HfApi().model_info if kind == "model" else HfApi().dataset_info
        info = ask(name, revision=revision, timeout=SECONDS_TO_ANSWER)
    except HFValidationError:
        raise InputError(
            f"{name}: is neither a local folder nor a name such as owner/name"
        ) from None
    except GatedRepoError:
        raise InputError(gated) from None
    except RevisionNotFoundError:
        raise InputError(f"{name}: has no revision {revision!r} on the hub") from None
    except RepositoryNotFoundError:
        raise InputError(
            f"{name}: the hub has no such public {kind}: check owner and name, or log in"
        ) from None
    except (HTTPError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise HubUnreachableError(
            f"{name}: the Hugging Face hub cannot be reached ({first})"
        ) from None
    if info.gated and get_token() is None:
        raise InputError(gated)
    return info


def cached_commit(name: str, *, revision: str | None = None) -> str | None:
    """Return the commit of a model that was downloaded before, or None."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(path).parent.name if isinstance(path, str) else None
