"""What a recorded step would take with less memory, and what wires allow at all."""
