"""One process of Onceward: all roles, or some of them."""
