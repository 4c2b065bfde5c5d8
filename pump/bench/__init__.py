"""What the library is worth: systems side by side, and the least that any could take."""
