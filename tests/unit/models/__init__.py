"""Unit tests of the models."""
