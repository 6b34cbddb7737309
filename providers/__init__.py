"""The grid: how clean it was, is and will be. It never hears of GPUs or of the controller."""
