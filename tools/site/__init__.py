"""Documents that are generated: manual pages, and the pages of the site that docs/ does not have."""
