"""Virtual time: an engine over a recorded sequence of operations and a model of the link."""
