"""Why the model could not be brought in. Every message is one line and names the remedy."""

from __future__ import annotations


class BringupError(Exception):
    """Base of everything this room raises on purpose. The registry's own errors pass through beside it."""


class OfflineError(BringupError):
    """The package index cannot be reached, or does not have the package."""


class CutDownloadError(BringupError):
    """A download ended early or arrived altered; another try may succeed."""


class CorruptModelError(BringupError):
    """The file is not the model that was asked for."""


class NoSpaceError(BringupError):
    """The disk is too small."""


class PipError(BringupError):
    """pip is missing, or failed in a way of its own."""
