// The precompiled header of all tests, and nothing else.
