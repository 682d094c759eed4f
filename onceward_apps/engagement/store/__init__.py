"""All SQL of engagement: `states` (changes), `candidates` (what a run looks at), `reading` (what people see)."""
