"""The services outside: one file per service, and nothing else of Onceward in here."""
