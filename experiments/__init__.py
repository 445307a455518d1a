"""The Hydra application around `smc`: tasks, methods, the record store, tracking and reports."""
