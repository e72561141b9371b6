"""The decisions, pure: no I/O, no clock, no randomness, nothing to wait for."""
