"""Whether nothing is lost and nothing done twice, whatever happens to processes and broker."""
