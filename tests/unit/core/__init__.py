"""Tests of the core, one file per module."""
