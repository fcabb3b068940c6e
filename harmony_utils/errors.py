"""Errors a person can act on; each class carries the exit code of the ``harmony`` command."""

from __future__ import annotations


class HarmonyError(Exception):
    """Base of every error this package raises on purpose.

    The message is one line: what is wrong, where, and what to do next.
    """

    exit_code = 1


class InputError(HarmonyError, ValueError):
    """Bad input or usage: a file, a name or a parameter that cannot be used (exit code 2)."""

    exit_code = 2


class RefusedError(HarmonyError):
    """A self-check failed and the result would not be trustworthy (exit code 3)."""

    exit_code = 3


class StageError(HarmonyError):
    """A stage of the audit broke off (exit code 4)."""

    exit_code = 4
