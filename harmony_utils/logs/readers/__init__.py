"""One module for each format, in the order in which they are tried."""

from harmony_utils.logs.readers import lm_eval

READERS = (lm_eval,)
