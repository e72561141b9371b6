"""One way of delivery a file, each started as a process: `python -m benchmarks.peers.NAME JSON`."""
