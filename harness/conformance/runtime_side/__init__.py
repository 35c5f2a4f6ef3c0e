"""The other side of the suite: it checks a runtime by the requests that witnesses, plugins with a script, record."""
