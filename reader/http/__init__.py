"""The gateway over HTTP: routes, tokens, streamed answers.

What is answered is decided by the packages beside this one.
"""
