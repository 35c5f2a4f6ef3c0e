"""Parts of the standard library without their start-up: a plugin is a process of milliseconds.

`lean.typing` takes the place of `typing`, and so on: same names, same meaning. Modules that a plugin's process imports
use these; all others use the standard library.
"""
