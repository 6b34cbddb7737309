"""The only code that changes a GPU: clamp, set, read back, journal the original, give it back."""
