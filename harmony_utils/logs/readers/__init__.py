"""One module for each format, in the order in which they are tried; tables of any origin last."""

from harmony_utils.logs.readers import (
    eval_framework,
    evalscope,
    every_eval_ever,
    generic,
    helm,
    inspect_ai,
    leaderboard,
    lighteval,
    lm_eval,
    matrix,
    mmlu_pro,
    olmes,
    opencompass,
)

READERS = (
    inspect_ai,
    lm_eval,
    lighteval,
    leaderboard,
    helm,
    olmes,
    opencompass,
    eval_framework,
    evalscope,
    mmlu_pro,
    every_eval_ever,
    generic,
    matrix,
)
