"""Local servers that speak each provider's documented format, and refuse what it would refuse."""
