"""Reads the hook tables and writes what is made from them, with the standard library alone."""
