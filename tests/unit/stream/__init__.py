"""Tests of the delivery layer without a broker."""
