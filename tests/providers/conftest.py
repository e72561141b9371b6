"""Clients that share what they read."""

from tests.read_once import install

install()
