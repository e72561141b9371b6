"""Errors that the core can raise. Each says who must act."""


class TurnstreamError(Exception):
    """Base of every error that this package raises on purpose."""


class DefinitionError(TurnstreamError):
    """The catalog contradicts itself; whoever edits the catalog must act."""
