"""What ``chase doctor`` looks at, a module a subject. A check returns findings and never raises."""
