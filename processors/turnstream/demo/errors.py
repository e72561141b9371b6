"""Errors of the local brokers: each says what is missing and what to do about it."""


class BrokerError(RuntimeError):
    """A local broker could not be prepared, started or stopped."""


class MissingProgramError(BrokerError):
    """A program that the broker needs is not installed, or too old: install it and run again."""
