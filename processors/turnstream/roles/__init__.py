"""The five processors: decide, execute, answer, classify, shadow."""
