"""The demo, and the local brokers it shares with the tests and the benchmarks."""
