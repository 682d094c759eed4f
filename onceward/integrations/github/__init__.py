"""GitHub: webhooks of repositories and organizations."""
