"""Properties tests."""
