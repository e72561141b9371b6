"""Finding personal data and taking it out."""
