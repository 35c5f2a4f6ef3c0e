"""`make release`: all files of a release, with the same bytes wherever and whenever one commit is built."""
