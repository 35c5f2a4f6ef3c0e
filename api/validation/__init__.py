"""The rules of the API server that the description of a type cannot say, by hand, in its order and words."""
