"""All SQL of the app, by what it is about."""
