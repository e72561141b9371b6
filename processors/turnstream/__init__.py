"""Turnstream decides the next safe step of each conversation that flows through Kafka."""

__version__ = "0.1.0"
