"""All SQL of course generation."""
