"""Benchmarks of Turnstream on a real Kafka; README.md says how to run them and how to read them."""
