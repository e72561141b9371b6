"""Agent models: every adapter against its provider's server."""
