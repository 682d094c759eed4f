"""Tools for assistants (Model Context Protocol): `onceward mcp` offers what the HTTP API shows, and on request
replays. Internal."""
