"""Tests of turnstream."""
