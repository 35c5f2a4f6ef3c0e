"""Parts of the standard library with a faster start-up: a plugin's process lasts only milliseconds.

`lean.typing` replaces `typing`, and so on: same names, same meaning. Modules that a plugin's process imports use these;
all others use the standard library.
"""
