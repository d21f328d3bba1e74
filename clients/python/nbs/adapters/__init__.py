"""Adapters for frameworks that run agents. Each module imports its framework, and nothing else does."""
