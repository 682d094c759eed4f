"""All SQL of engagement: `states` (changes), `candidates` (what a run looks at), `views` (what people see)."""
