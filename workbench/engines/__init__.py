"""How a path or an op is run: one Protocol, one registry."""
