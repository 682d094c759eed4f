"""All SQL of the clinic."""
