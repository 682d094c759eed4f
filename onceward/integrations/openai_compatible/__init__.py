"""One more service with OpenAI's chat API, beside OpenAI itself."""
