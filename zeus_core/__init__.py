"""The optimizer: how fast a training job runs, and at how many joules.

It never hears of carbon, HTTP or SQLite; importing it loads no torch, scipy or network.
"""
