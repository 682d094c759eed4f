"""Any sender whose HMAC the options of a source describe."""
