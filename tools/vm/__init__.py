"""A virtual machine with Debian's own kernel, for drivers that the kernel under the tests may lack.

`python -m tools.vm` boots it. Nothing is installed for it but the emulator: the kernel is unpacked below build/, and
the root is that of this machine, read-only, with a layer in memory above it.
"""
