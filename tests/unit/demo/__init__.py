"""Tests of the demo and its brokers."""
