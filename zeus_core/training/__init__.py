"""What runs inside a training process: PyTorch, and no daemon."""
