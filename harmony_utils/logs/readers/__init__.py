"""One module for each format, in the order in which they are tried; tables of any origin last."""

from harmony_utils.logs.readers import (
    eval_framework,
    evalscope,
    every_eval_ever,
    generic,
    helm,
    lm_eval,
    matrix,
    mmlu_pro,
    olmes,
    opencompass,
)

READERS = (
    lm_eval,
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
