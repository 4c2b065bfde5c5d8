"""Programs that share a GPU, as the broker plans them (`broker/`)."""
