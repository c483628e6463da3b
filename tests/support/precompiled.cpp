// Nothing but the precompiled header of all tests.
