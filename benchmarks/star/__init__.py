"""The STAR dialogues as live traffic: a catalog for their tasks, a converter, a run with checks."""
