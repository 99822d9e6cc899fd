"""Networks and layers that the laboratory measures: random ones, published ones, and relatives of those."""
