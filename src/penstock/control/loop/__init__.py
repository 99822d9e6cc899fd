"""The loop between what should be and what is: reading reports, learning from them, carrying decisions out."""
