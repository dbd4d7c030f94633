"""The router: decides which arm answers a request, and is pure.

No I/O, no clock, no randomness of its own, and no import of another room: what varies is a parameter, so that
every decision can be replayed. A decision runs `request → filter → difficulty → policy`; `decision` holds
what comes out.
"""
