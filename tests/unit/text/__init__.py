"""Unit tests of the text scoring."""
