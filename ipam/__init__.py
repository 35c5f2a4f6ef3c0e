"""Address management: the plugins that `ipam.type` names (SPEC.md section 4)."""
