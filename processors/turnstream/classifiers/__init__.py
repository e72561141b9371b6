"""Classifiers that label a finished exchange."""
