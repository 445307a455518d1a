"""Measurements that the README quotes; each is one command and writes its table under results/bench/."""
