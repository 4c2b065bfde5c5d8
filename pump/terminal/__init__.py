"""What a terminal shows and is told: commands, tables, progress."""
