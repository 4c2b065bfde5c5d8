"""`pump top` as a screen that answers keys. `app` alone needs Textual."""
