"""GPUs, real and simulated, behind one protocol in watts, joules and megahertz."""
