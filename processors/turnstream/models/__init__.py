"""Decision and answer models, one file per provider."""
