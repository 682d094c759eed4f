"""Every public verb in any order, with workers that stop, die and freeze: what was accepted ends, once."""
