"""Metrics of course generation."""

from __future__ import annotations

from onceward.telemetry.metrics import counter, histogram

ACCEPTED = counter("coursegen_requests_total", "Requests to generate, by outcome.", ("outcome",))
ENDED = counter("coursegen_generations_total", "Generations that ended, by outcome.", ("outcome",))
CALLS = counter("coursegen_llm_calls_total", "Calls to the language model, by step and outcome.", ("step", "outcome"))
FALLBACKS = counter(
    "coursegen_model_fallbacks_total",
    "Questions that a model did not answer and another was asked, by step.",
    ("step",),
)
COST = counter("coursegen_llm_cost_dollars_total", "Costs of calls, in US dollars.", ("tier",))
CALL_SECONDS = histogram("coursegen_llm_call_seconds", "Duration of calls to the language model.", ("step",))
