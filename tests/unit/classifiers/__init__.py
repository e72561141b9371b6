"""Unit tests of the classifiers."""
