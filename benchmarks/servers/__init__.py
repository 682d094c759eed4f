"""The servers that `bench ingest` compares. Each module has `async def make(url)`, which returns an ASGI app."""

SECRET = "whsec_of_the_benchmark_long_enough_to_be_one"
