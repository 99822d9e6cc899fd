"""Do operators compute what they should? References, a self-test, the first wrong one of a model."""
