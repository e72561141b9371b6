"""Real models of real providers, where a configuration names some."""
